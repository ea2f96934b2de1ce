{# A layer's schema is called as it is configured (ods, dwd, dws), without the profile's schema before it; in the target
   `branch`, with it. #}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {%- if target.name == 'branch' %}{{ target.schema | trim }}_{% endif -%}
    {{ (custom_schema_name or target.schema) | trim }}
{%- endmacro %}
