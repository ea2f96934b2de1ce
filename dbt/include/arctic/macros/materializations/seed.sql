{# The file's rows are staged as text and cast by Spark, and the table is created or replaced in one commit. #}

{% macro arctic__create_csv_table(model, agate_table) -%}
  {%- set overrides = model['config'].get('column_types', {}) -%}
  {%- set quote_columns = model['config'].get('quote_columns', none) -%}
  {%- set staged = make_temp_relation(this, '__dbt_seed') -%}
  {%- do adapter.stage_seed(staged, agate_table) -%}
  {%- set sql -%}
    create or replace table {{ this.render() }}
    {{ file_format_clause() }}
    {{ tblproperties_clause() }}
    {{ partition_cols(label='partitioned by') }}
    {{ location_clause() }}
    {{ comment_clause() }}
    as select
    {%- for name in agate_table.column_names %}
      cast({{ adapter.quote(name) }} as {{ api.Column.translate_type(overrides.get(name, adapter.convert_type(agate_table, loop.index0))) }}) as {{ adapter.quote_seed_column(name | string, quote_columns) }}{{ ',' if not loop.last }}
    {%- endfor %}
    from {{ staged.render() }}
  {%- endset -%}
  {%- call statement('create_csv_table') -%}{{ sql }}{%- endcall -%}
  {{ return(sql) }}
{%- endmacro %}

{% macro arctic__reset_csv_table(model, full_refresh, old_relation, agate_table) -%}
  {{ return(create_csv_table(model, agate_table)) }}
{%- endmacro %}

{% macro arctic__load_csv_rows(model, agate_table) -%}
  {{ return('') }}
{%- endmacro %}

{% macro arctic__get_csv_sql(create_or_truncate_sql, insert_sql) -%}
  {{ create_or_truncate_sql }}
{%- endmacro %}

{% macro arctic__get_binding_char() -%}
  {{ return('?') }}
{%- endmacro %}

{% materialization seed, adapter='arctic' %}
  {%- do arctic_drop_clone_view() -%}
  {%- do apply_grants(this, config.get('grants'), false) -%}
  {{ return(materialization_seed_default()) }}
{% endmaterialization %}
