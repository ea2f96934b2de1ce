{% materialization table, adapter='arctic', supported_languages=['sql', 'python'] %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set grant_config = config.get('grants') -%}
  {%- do apply_grants(target_relation, grant_config, false) -%}

  {{ run_hooks(pre_hooks) }}
  {%- do arctic_build_table(target_relation, existing, arctic_model_query(compiled_code)) -%}
  {%- do persist_docs(target_relation, model) -%}
  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# Builds the whole table. A view in its place has to go first, so the query is analyzed before that. #}
{% macro arctic_build_table(target_relation, existing, compiled_code) -%}
  {%- set parts = adapter.arctic_parts(existing) -%}
  {%- if existing is not none and not existing.is_table -%}
    {%- do get_column_schema_from_query(compiled_code, config.get('sql_header', none)) -%}
    {{ log("Dropping " ~ existing.render() ~ " because it is a " ~ existing.type ~ " and the model is a table now", info=True) }}
    {%- do adapter.drop_relation(existing) -%}
  {%- endif -%}
  {%- call statement('main') -%}
    {{ get_create_table_as_sql(False, target_relation, compiled_code) }}
  {%- endcall -%}
  {%- if existing is not none -%}
    {%- do arctic_drop_leftovers(target_relation, parts, adapter.arctic_property_names(target_relation) if existing.is_table else []) -%}
  {%- endif -%}
{%- endmacro %}
