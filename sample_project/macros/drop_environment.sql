{% macro drop_environment() %}
  {% if target.name != 'branch' %}
    {% do exceptions.raise_compiler_error("drop_environment drops all schemas of a target; found " ~ target.name) %}
  {% endif %}
  {% for schema in graph.nodes.values() | map(attribute='schema') | unique %}
    {% if schema.startswith(target.schema) %}
      {% do adapter.drop_schema(api.Relation.create(database=target.database, schema=schema)) %}
    {% endif %}
  {% endfor %}
{% endmacro %}
