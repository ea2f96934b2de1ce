{# The rows that appeared in a relation since this model last succeeded, exactly once. The comment is for
   `arctic run --manifest`, which reads the new rows there; another program that runs the query reads all rows. #}
{% macro changes(relation) -%}
  {{- return(adapter.dispatch('changes', 'arctic')(relation)) -}}
{%- endmacro %}

{% macro default__changes(relation) -%}
  {{- return('/* arctic: changes */ ' ~ relation) -}}
{%- endmacro %}

{% macro arctic__changes(relation) -%}
  {{- return(adapter.changes_of(relation, model)) -}}
{%- endmacro %}
