{# Tables are created or replaced in one commit: readers see the old rows until they see the new ones. #}

{% macro arctic__create_temporary_view(relation, compiled_code) -%}
  create or replace temporary view {{ relation.include(database=false, schema=false).render() }} as
  {{ compiled_code }}
{%- endmacro %}

{# What a model selects: its own SQL, or the rows that its Python function returned. #}
{% macro arctic_model_query(compiled_code) -%}
  {{- return(adapter.python_query(model, compiled_code) if model.language == 'python' else compiled_code) -}}
{%- endmacro %}

{# The SQL of a node, which dbt's materializations pass on as the variable `sql`; a macro of that name takes its place. #}
{% macro arctic_node_sql(sql) -%}
  {{- return(compiled_code if sql is callable else sql) -}}
{%- endmacro %}

{% macro arctic__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- set sql_header = config.get('sql_header', none) -%}
  {{ sql_header if sql_header is not none }}
  {% if temporary -%}
    {{ create_temporary_view(relation, compiled_code) }}
  {%- else -%}
    {%- set contract = config.get('contract') -%}
    {%- if contract and contract.enforced -%}
      {{ get_assert_columns_equivalent(compiled_code) }}
      {%- set compiled_code = get_select_subquery(compiled_code) -%}
    {%- endif -%}
    create or replace table {{ relation.render() }}
    {{ file_format_clause() }}
    {{ options_clause() }}
    {{ tblproperties_clause() }}
    {{ partition_cols(label='partitioned by') }}
    {{ location_clause() }}
    {{ comment_clause() }}
    as
    {{ compiled_code }}
  {%- endif -%}
{%- endmacro %}

{% macro arctic__get_select_subquery(sql) -%}
  {#- rendering the constraints tells of those that nothing enforces -#}
  {%- do adapter.render_raw_columns_constraints(raw_columns=model['columns']) -%}
  {%- do adapter.render_raw_model_constraints(raw_constraints=model['constraints']) -%}
  select {{ adapter.select_checked_columns(model) }}
  from (
    {{ sql }}
  ) as model_subq
{%- endmacro %}

{% macro arctic__create_view_as(relation, sql) -%}
  {%- set sql = arctic_node_sql(sql) -%}
  {%- set sql_header = config.get('sql_header', none) -%}
  {{ sql_header if sql_header is not none }}
  {%- set contract = config.get('contract') -%}
  {%- if contract and contract.enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif -%}
  create or replace view {{ relation.render() }}
  {% if config.persist_column_docs() and model.columns -%}
    {%- set names = get_column_schema_from_query(sql) | map(attribute='name') | list -%}
    {%- do validate_doc_columns(relation, model.columns, names) -%}
    ({{ get_persist_docs_column_list(model.columns, names) }})
  {%- endif %}
  {{ comment_clause() }}
  {%- if model.config.materialized in ('arctic', 'seed', 'snapshot') %}
  {#- only `dbt clone` makes one of these a view; a run knows it by this as one that it may replace #}
  tblproperties ('arctic.kind' = 'clone')
  {%- endif %}
  as
    {{ sql }}
{%- endmacro %}
