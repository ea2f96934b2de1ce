{# dbt's functions across databases, where Spark can do more than what dbt-spark uses of it. #}

{# Spark's `float` has seven digits; what dbt means by it is the usual floating-point number. #}
{% macro arctic__type_float() -%}
  double
{%- endmacro %}

{# A limit applies to the ordered values: they are joined by a character that no text has, cut, and joined anew. #}
{% macro arctic__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
  {%- set within = 'within group (' ~ order_by_clause ~ ')' if order_by_clause else '' -%}
  {%- if limit_num -%}
    array_join(slice(split(listagg({{ measure }}, '\u0001') {{ within }}, '\u0001'), 1, {{ limit_num }}), {{ delimiter_text }})
  {%- else -%}
    listagg({{ measure }}, {{ delimiter_text }}) {{ within }}
  {%- endif -%}
{%- endmacro %}

{#- dbt-spark splits by a pattern: a delimiter that begins with a letter is another one there, and a part that is not there an error. #}
{% macro arctic__split_part(string_text, delimiter_text, part_number) -%}
  split_part({{ string_text }}, {{ delimiter_text }}, {{ part_number }})
{%- endmacro %}

{# Null where the cast fails. Fixtures of dbt's unit tests have quotes around all texts; those of nested types are
   expressions, since Spark casts no text to them. #}
{% macro arctic__safe_cast(field, type) -%}
  {%- set is_nested = field is string and cast_from_string_unsupported_for(type) -%}
  try_cast({{ adapter.unescape_literal(field) if is_nested else field }} as {{ type }})
{%- endmacro %}

{# For a place between single quotes, as in `string_literal(escape_single_quotes(value))`: a backslash is one more character
   that Spark reads as something else. #}
{% macro arctic__escape_single_quotes(expression) -%}
  {{ return(adapter.literal(expression | string)[1:-1]) }}
{%- endmacro %}

{% macro arctic__dateadd(datepart, interval, from_date_or_timestamp) -%}
  {{ return(adapter.date_expression('dateadd', datepart, interval, from_date_or_timestamp)) }}
{%- endmacro %}

{% macro arctic__datediff(first_date, second_date, datepart) -%}
  {{ return(adapter.date_expression('datediff', first_date, second_date, datepart)) }}
{%- endmacro %}

{% macro arctic__date_trunc(datepart, date) -%}
  {{ return(adapter.date_expression('date_trunc', datepart, date)) }}
{%- endmacro %}

{% macro arctic__date(year, month, day) -%}
  date'{{ modules.datetime.date(year, month, day).isoformat() }}'
{%- endmacro %}

{# A value that is not null if the group has one, as in the standard. #}
{% macro arctic__any_value(expression) -%}
  any_value({{ expression }}, true)
{%- endmacro %}

{# No table can have the type of an empty array without one. #}
{% macro arctic__array_construct(inputs, data_type) -%}
  {%- if inputs -%} array({{ inputs | join(', ') }}) {%- else -%} cast(array() as array<{{ data_type }}>) {%- endif -%}
{%- endmacro %}
