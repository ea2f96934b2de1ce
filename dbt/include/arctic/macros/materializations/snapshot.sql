{% materialization snapshot, adapter='arctic' %}
  {%- do apply_grants(this, config.get('grants'), false) -%}
  {{ return(materialization_snapshot_default()) }}
{% endmaterialization %}

{% macro arctic__snapshot_merge_sql(target, source, insert_cols) -%}
  {%- set columns = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
  {%- set current = config.get('dbt_valid_to_current') -%}
  merge into {{ target.render() }} as DBT_INTERNAL_DEST
  using {{ source.render() }} as DBT_INTERNAL_SOURCE
  on DBT_INTERNAL_SOURCE.{{ columns.dbt_scd_id }} = DBT_INTERNAL_DEST.{{ columns.dbt_scd_id }}
  when matched
    and (DBT_INTERNAL_DEST.{{ columns.dbt_valid_to }} is null{% if current %} or DBT_INTERNAL_DEST.{{ columns.dbt_valid_to }} = {{ current }}{% endif %})
    and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    then update set DBT_INTERNAL_DEST.{{ columns.dbt_valid_to }} = DBT_INTERNAL_SOURCE.{{ columns.dbt_valid_to }}
  when not matched
    and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
    then insert ({{ insert_cols | join(', ') }})
    values ({% for name in insert_cols %}DBT_INTERNAL_SOURCE.{{ name }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}

{% macro arctic__post_snapshot(staging_relation) -%}
  {% do adapter.drop_relation(staging_relation) %}
{%- endmacro %}
