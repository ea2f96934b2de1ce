{# The versions of a table with history that were valid at a time, an SQL expression; of a bitemporal table as it was
   recorded at another time. For a `from` clause. #}
{% macro arctic_as_of(relation, time, recorded=none) -%}
  {{- return(adapter.write_history('as_of', relation.render(), time, recorded)) -}}
{%- endmacro %}

{# Whether a version, a row of the table with this alias, was valid at a time; for a join or a filter. #}
{% macro arctic_valid_at(alias, time, recorded=none) -%}
  {{- return(adapter.write_history('valid_at', alias, time, recorded)) -}}
{%- endmacro %}

{# The current versions of a table with history; for a `from` clause. #}
{% macro arctic_current(relation) -%}
  {{- return(adapter.write_history('current', relation.render())) -}}
{%- endmacro %}
