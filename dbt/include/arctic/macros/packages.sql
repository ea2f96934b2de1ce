{# Macros of packages whose form for Spark runs on Databricks alone; see project/package_macros.py. #}

{# fivetran_utils: a path into a JSON text, which Databricks writes as `text:path`. #}
{% macro arctic__json_parse(string, string_path) -%}
  get_json_object({{ string }}, {{ adapter.write_json_path(string_path) }})
{%- endmacro %}
