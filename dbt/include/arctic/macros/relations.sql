{% macro arctic__create_schema(relation) -%}
  {% do adapter.create_namespace(relation) %}
{%- endmacro %}

{% macro arctic__drop_schema(relation) -%}
  {% do adapter.drop_namespace(relation) %}
{%- endmacro %}

{% macro arctic__list_schemas(database) -%}
  {{ return(adapter.list_schemas(database)) }}
{%- endmacro %}

{% macro arctic__check_schema_exists(information_schema, schema) -%}
  {{ return(adapter.check_schema_exists(information_schema.database, schema)) }}
{%- endmacro %}

{% macro arctic__get_columns_in_relation(relation) -%}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{%- endmacro %}

{% macro arctic__list_relations_without_caching(schema_relation) -%}
  {{ return(adapter.list_relations_without_caching(schema_relation)) }}
{%- endmacro %}

{% macro arctic__generate_database_name(custom_database_name=none, node=none) -%}
  {{ return(default__generate_database_name(custom_database_name, node)) }}
{%- endmacro %}

{% macro arctic__drop_relation(relation) -%}
  {% call statement('drop_relation', auto_begin=False) -%}
    drop {{ 'view' if relation.is_temporary or relation.is_view else 'table' }} if exists {{ relation.render() }}
  {%- endcall %}
{%- endmacro %}

{% macro arctic__rename_relation(from_relation, to_relation) -%}
  {% if from_relation.database != to_relation.database %}
    {% do exceptions.raise_compiler_error("Cannot rename " ~ from_relation.render() ~ " into another catalog: " ~ to_relation.render()) %}
  {% endif %}
  {% call statement('rename_relation') -%}
    alter {{ 'view' if from_relation.is_view else 'table' }} {{ from_relation.render() }} rename to {{ to_relation.include(database=false).render() }}
  {%- endcall %}
{%- endmacro %}

{% macro arctic__truncate_relation(relation) -%}
  {% call statement('truncate_relation') -%}
    delete from {{ relation.render() }}
  {%- endcall %}
{%- endmacro %}

{# A view of the session, which ends with the connection: nothing of it is left behind, and no name collides. #}
{% macro arctic__make_temp_relation(base_relation, suffix) -%}
  {{ return(base_relation.incorporate(path={'identifier': base_relation.identifier ~ suffix}, type='view').include(database=false, schema=false)) }}
{%- endmacro %}

{% macro arctic__alter_column_type(relation, column_name, new_column_type) -%}
  {% call statement('alter_column_type') -%}
    alter table {{ relation.render() }} alter column {{ adapter.quote(column_name) }} type {{ api.Column.translate_type(new_column_type) }}
  {%- endcall %}
{%- endmacro %}

{% macro arctic__alter_relation_add_remove_columns(relation, add_columns, remove_columns) -%}
  {% if add_columns %}
    {% call statement('add_columns') -%}
      alter table {{ relation.render() }} add columns (
        {%- for column in add_columns %}{{ column.quoted }} {{ column.data_type }}{{ ', ' if not loop.last }}{% endfor -%}
      )
    {%- endcall %}
  {% endif %}
  {% if remove_columns %}
    {% call statement('drop_columns') -%}
      alter table {{ relation.render() }} drop columns (
        {%- for column in remove_columns %}{{ column.quoted }}{{ ', ' if not loop.last }}{% endfor -%}
      )
    {%- endcall %}
  {% endif %}
{%- endmacro %}

{% macro arctic__create_columns(relation, columns) -%}
  {% do arctic__alter_relation_add_remove_columns(relation, columns, none) %}
{%- endmacro %}

{# What an arctic model left beside and on a relation that another materialization has taken over. #}
{% macro arctic_drop_leftovers(relation, parts, property_names) -%}
  {% for part in parts %}
    {{ log("Dropping " ~ part.render() ~ ", which belonged to " ~ relation.render() ~ " while that was an arctic model", info=True) }}
    {% do adapter.drop_relation(part) %}
  {% endfor %}
  {% if property_names %}
    {% call statement('forget_properties') -%}
      alter {{ 'view' if relation.is_view else 'table' }} {{ relation.render() }} unset tblproperties if exists (
        {%- for name in property_names %}{{ adapter.literal(name) }}{{ ', ' if not loop.last }}{% endfor -%}
      )
    {%- endcall %}
  {% endif %}
{%- endmacro %}

{% macro arctic__handle_existing_table(full_refresh, old_relation) -%}
  {{ log("Dropping " ~ old_relation.render() ~ " because it is a " ~ old_relation.type ~ " and the model is a view now", info=True) }}
  {% do adapter.drop_relation(old_relation) %}
{%- endmacro %}
