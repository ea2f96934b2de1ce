{% macro arctic__persist_docs(relation, model, for_relation, for_columns) -%}
  {%- set description = model.description if for_relation and config.persist_relation_docs() and model.description else none -%}
  {%- set columns = {} -%}
  {%- if for_columns and config.persist_column_docs() and model.columns -%}
    {%- set existing = adapter.get_columns_in_relation(relation) | map(attribute='name') | list -%}
    {%- set known = validate_doc_columns(relation, model.columns, existing) -%}
    {%- for name in known -%}{% do columns.update({name: known[name]['description'] or ''}) %}{%- endfor -%}
  {%- endif -%}
  {%- if (description is not none or columns) and not relation.is_view -%}
    {%- set changes = adapter.comments_to_change(relation, description, columns) -%}
    {%- if changes['relation'] is not none -%}{% do alter_relation_comment(relation, changes['relation']) %}{%- endif -%}
    {%- if changes['columns'] -%}{% do arctic_comment_columns(relation, changes['columns']) %}{%- endif -%}
  {%- endif -%}
{%- endmacro %}

{% macro arctic__alter_relation_comment(relation, relation_comment) -%}
  {% call statement('comment') -%}
    alter {{ 'view' if relation.is_view else 'table' }} {{ relation.render() }} set tblproperties ('comment' = {{ adapter.literal(relation_comment) }})
  {%- endcall %}
{%- endmacro %}

{% macro arctic__alter_column_comment(relation, column_dict) -%}
  {%- set columns = {} -%}
  {%- for name in column_dict -%}{% do columns.update({name: column_dict[name]['description'] or ''}) %}{%- endfor -%}
  {% do arctic_comment_columns(relation, columns) %}
{%- endmacro %}

{% macro arctic_comment_columns(relation, comments) -%}
  {% call statement('comment_columns') -%}
    alter table {{ relation.render() }} alter column
    {% for name in comments %} {{ adapter.quote(name) }} comment {{ adapter.literal(comments[name]) }}{{ ',' if not loop.last }}{% endfor %}
  {%- endcall %}
{%- endmacro %}

{# An Iceberg catalog keeps no grants that Spark could read or change. #}
{% macro arctic__apply_grants(relation, grant_config, should_revoke=True) -%}
  {%- if grant_config -%}{% do adapter.ignore_grants(relation, config.get('materialized')) %}{%- endif -%}
{%- endmacro %}
