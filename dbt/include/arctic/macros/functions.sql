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
