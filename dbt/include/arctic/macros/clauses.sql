{# Parts of `create table` and `create view`. Texts become literals in Python, which knows how to escape them. #}

{% macro arctic__file_format_clause() -%}
  using iceberg
{%- endmacro %}

{% macro arctic__tblproperties_clause() -%}
  {%- set properties = config.get('tblproperties') -%}
  {%- if properties %}
  tblproperties (
    {%- for key in properties %}{{ adapter.literal(key) }} = {{ adapter.literal(properties[key] | string) }}{{ ', ' if not loop.last }}{% endfor -%}
  )
  {%- endif %}
{%- endmacro %}

{% macro arctic__options_clause() -%}
  {%- set options = config.get('options') -%}
  {%- if options %}
  options (
    {%- for key in options %}{{ adapter.literal(key) }} = {{ adapter.literal(options[key] | string) }}{{ ', ' if not loop.last }}{% endfor -%}
  )
  {%- endif %}
{%- endmacro %}

{% macro arctic__location_clause() -%}
  {%- set location_root = config.get('location_root') -%}
  {%- if location_root %}
  location {{ adapter.literal(location_root ~ '/' ~ model['alias']) }}
  {%- endif %}
{%- endmacro %}

{% macro arctic__comment_clause() -%}
  {%- if config.persist_relation_docs() and model.description %}
  comment {{ adapter.literal(model.description) }}
  {%- endif %}
{%- endmacro %}

{% macro arctic__partition_cols(label, required=false) -%}
  {%- set parts = adapter.list_named_columns('partitions', config.get('partition_by'), config.get('partitioned_by')) -%}
  {%- if parts %}
  {{ label }} ({{ parts | join(', ') }})
  {%- endif %}
{%- endmacro %}

{% macro get_column_comment_sql(column_name, column_dict) -%}
  {%- set described = {} -%}
  {%- for name in column_dict -%}{% do described.update({name | lower: column_dict[name].get('description')}) %}{%- endfor -%}
  {{ adapter.quote(column_name) }}
  {%- if described.get(column_name | lower) %} comment {{ adapter.literal(described[column_name | lower]) }}{% endif %}
{%- endmacro %}
