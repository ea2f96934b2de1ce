{% materialization view, adapter='arctic' -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- do apply_grants(target_relation, config.get('grants'), false) -%}
  {%- set parts = adapter.arctic_parts(existing) -%}
  {%- if existing is not none and existing.is_table -%}
    {#- the table goes before the view is created, so the query is analyzed before that -#}
    {%- do get_column_schema_from_query(compiled_code, config.get('sql_header', none)) -%}
  {%- endif -%}
  {%- set result = create_or_replace_view() -%}
  {%- if existing is not none -%}
    {%- set names = adapter.arctic_property_names(target_relation) if existing.is_view else [] -%}
    {%- set is_clone = model.config.materialized == 'arctic' -%}
    {%- do arctic_drop_leftovers(target_relation, parts, names | reject('equalto', 'arctic.kind') | list if is_clone else names) -%}
  {%- endif -%}
  {{ return(result) }}
{%- endmaterialization %}
