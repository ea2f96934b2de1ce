{# Iceberg tables have no shallow clones whose files outlive the original's maintenance, so a clone is a view. #}
{% macro arctic__can_clone_table() -%}
  {{ return(False) }}
{%- endmacro %}

{% materialization clone, adapter='arctic' %}
  {#- a view of itself would take the place of the table -#}
  {%- if defer_relation and defer_relation.render() == this.render() and load_cached_relation(this) is not none -%}
    {{ log("Target relation and defer relation are the same, skipping clone for relation: " ~ this.render()) }}
    {{ return({'relations': []}) }}
  {%- endif -%}
  {{ return(materialization_clone_default()) }}
{% endmaterialization %}
