{% materialization arctic, adapter='arctic', supported_languages=['sql', 'python'] %}
  {%- set grant_config = config.get('grants') -%}
  {%- do apply_grants(this, grant_config, false) -%}

  {%- if defer_relation and not should_full_refresh() and not flags.EMPTY -%}
    {%- do adapter.clone_from_state(this, model, defer_relation, selected_resources) -%}
  {%- endif -%}

  {{ run_hooks(pre_hooks) }}
  {%- set response = adapter.maintain(this, model, arctic_model_query(compiled_code), should_full_refresh(), var('arctic_frozen', false)) -%}
  {%- do store_result('main', response=response) -%}
  {%- set target_relation = adapter.build_maintained_relation(this, model) -%}
  {%- do persist_docs(target_relation, model) -%}
  {{ run_hooks(post_hooks) }}

  {{ return({'relations': adapter.build_maintained_relations(this, model)}) }}
{% endmaterialization %}
