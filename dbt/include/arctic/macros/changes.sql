{# The rows that appeared in a relation since this model last succeeded, exactly once. #}
{% macro changes(relation) -%}
  {{- return(adapter.changes_of(relation, model)) -}}
{%- endmacro %}

{# The rows of a model that fail its tests, of a model with `on_failed_row: quarantine`. #}
{% macro quarantine(relation) -%}
  {{- return(adapter.quarantine_of(relation, model)) -}}
{%- endmacro %}

{# True where only new rows are read: in dbt's incremental models, and in arctic models of change events, once they are
   built. A model that says what its table is must always say all of it. #}
{% macro is_incremental() -%}
  {%- if not execute -%}
    {{- return(false) -}}
  {%- endif -%}
  {%- set relation = adapter.get_relation(this.database, this.schema, this.table) -%}
  {%- if relation is none or should_full_refresh() -%}
    {{- return(false) -}}
  {%- elif model.config.materialized == 'arctic' -%}
    {{- return(model.config.get('input') == 'changes' and not adapter.is_clone(relation)) -}}
  {%- endif -%}
  {{- return(relation.type == 'table' and model.config.materialized == 'incremental') -}}
{%- endmacro %}
