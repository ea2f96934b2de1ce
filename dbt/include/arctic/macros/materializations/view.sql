{% materialization view, adapter='arctic' -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- do apply_grants(target_relation, config.get('grants'), false) -%}
  {%- set parts = adapter.arctic_parts(existing) -%}
  {%- set result = create_or_replace_view() -%}
  {%- if existing is not none -%}
    {%- do arctic_forget(target_relation, parts, adapter.arctic_property_names(target_relation) if existing.is_view else []) -%}
  {%- endif -%}
  {{ return(result) }}
{%- endmaterialization %}
