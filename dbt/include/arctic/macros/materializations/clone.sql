{# dbt's own clone is a view here: only an arctic model can have the files of another table, and keep them. #}
{% macro arctic__can_clone_table() -%}
  {{ return(False) }}
{%- endmacro %}

{% materialization clone, adapter='arctic' %}
  {%- set existing = load_cached_relation(this) -%}
  {#- a view of itself would take the place of the table -#}
  {%- if defer_relation and defer_relation.render() == this.render() and existing is not none -%}
    {{ log("Target relation and defer relation are the same, skipping clone for relation: " ~ this.render()) }}
    {{ return({'relations': []}) }}
  {%- endif -%}
  {%- set is_arctic = defer_relation and model.config.materialized == 'arctic' and adapter.has_arctic_origin(defer_relation) -%}
  {%- if not is_arctic or (existing is not none and not flags.FULL_REFRESH) -%}
    {{ return(materialization_clone_default()) }}
  {%- endif -%}
  {%- set response = adapter.clone_arctic(this, model, defer_relation, flags.FULL_REFRESH) -%}
  {%- do store_result('main', response=response) -%}
  {{ return({'relations': adapter.build_maintained_relations(this, model)}) }}
{% endmaterialization %}

{# Drops the view that `dbt clone` made of a seed or a snapshot: it has no rows, and dbt builds neither over a view. #}
{% macro arctic_drop_clone_view() -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- if existing is not none and existing.is_view and adapter.is_clone(existing) -%}
    {%- do adapter.drop_relation(existing) -%}
  {%- endif -%}
{%- endmacro %}
