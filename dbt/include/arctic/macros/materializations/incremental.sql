{% materialization incremental, adapter='arctic', supported_languages=['sql', 'python'] -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set unique_key = config.get('unique_key') -%}
  {%- set strategy = config.get('incremental_strategy') or ('merge' if unique_key else 'append') -%}
  {%- set strategy_macro = adapter.get_incremental_strategy_macro(context, strategy) -%}
  {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
  {%- do apply_grants(target_relation, config.get('grants'), false) -%}

  {{ run_hooks(pre_hooks) }}
  {%- set query = arctic_model_query(compiled_code) -%}

  {%- if existing is none or not existing.is_table or should_full_refresh() or adapter.arctic_property_names(existing) -%}
    {%- do arctic_build_table(target_relation, existing, query) -%}
  {%- else -%}
    {%- set staged = arctic_stage_increment(target_relation, strategy, query) -%}
    {%- set columns = process_schema_changes(on_schema_change, staged, existing) or adapter.get_columns_in_relation(existing) -%}
    {%- set predicates = config.get('predicates', none) or config.get('incremental_predicates', none) -%}
    {%- set written = adapter.branch_of(target_relation) if arctic_in_two_steps(strategy) else target_relation -%}
    {%- set sql -%}
      {{ config.get('sql_header', none) or '' }}
      {{ strategy_macro({'target_relation': written, 'temp_relation': staged, 'unique_key': unique_key,
                         'dest_columns': columns, 'incremental_predicates': predicates}) }}
    {%- endset -%}
    {%- if arctic_in_two_steps(strategy) -%}
      {{ write(sql) }}
      {%- do store_result('main', response=adapter.replace_rows(written, sql, staged)) -%}
    {%- else -%}
      {%- call statement('main') -%}{{ sql }}{%- endcall -%}
      {%- do adapter.drop_relation(staged) -%}
    {%- endif -%}
  {%- endif -%}

  {%- do persist_docs(target_relation, model) -%}
  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{%- endmaterialization %}

{# Strategies that delete, and then insert: on a branch, so that nobody sees, and no crash leaves, the one without the other. #}
{% macro arctic_in_two_steps(strategy) -%}
  {{- return(strategy in ('delete+insert', 'microbatch')) -}}
{%- endmacro %}

{# Strategies of two statements read what is staged twice, so that must be a table: a view would see the first one's work. #}
{% macro arctic_stage_increment(target_relation, strategy, compiled_code) -%}
  {%- set contract = config.get('contract') -%}
  {%- if contract and contract.enforced -%}
    {%- do get_assert_columns_equivalent(compiled_code) -%}
    {%- set compiled_code = get_select_subquery(compiled_code) -%}
  {%- endif -%}
  {%- if arctic_in_two_steps(strategy) -%}
    {%- set staged = target_relation.incorporate(path={'identifier': target_relation.identifier ~ '__dbt_tmp_' ~ adapter.new_suffix()}) -%}
    {%- call statement('stage_increment') -%}
      {{ config.get('sql_header', none) or '' }}
      create table {{ staged.render() }} using iceberg as
      {{ compiled_code }}
    {%- endcall -%}
  {%- else -%}
    {%- set staged = make_temp_relation(target_relation) -%}
    {%- call statement('stage_increment') -%}
      {{ config.get('sql_header', none) or '' }}
      {{ create_temporary_view(staged, compiled_code) }}
    {%- endcall -%}
  {%- endif -%}
  {{ return(staged) }}
{%- endmacro %}

{% macro arctic_insert(arg_dict, verb='insert into') -%}
  {%- set columns = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') -%}
  {{ verb }} {{ arg_dict['target_relation'].render() }} ({{ columns }})
  select {{ columns }} from {{ arg_dict['temp_relation'].render() }}
{%- endmacro %}

{% macro arctic__get_incremental_append_sql(arg_dict) -%}
  {{ return(arctic_insert(arg_dict)) }}
{%- endmacro %}

{% macro arctic__get_incremental_insert_overwrite_sql(arg_dict) -%}
  {%- if adapter.list_named_columns('partitions', config.get('partition_by'), config.get('partitioned_by')) -%}
    {%- call statement('overwrite_mode') -%}
      set spark.sql.sources.partitionOverwriteMode = dynamic
    {%- endcall -%}
  {%- endif -%}
  {{ return(arctic_insert(arg_dict, 'insert overwrite')) }}
{%- endmacro %}

{% macro arctic__get_incremental_merge_sql(arg_dict) -%}
  {{ return(get_merge_sql(arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['unique_key'], arg_dict['dest_columns'], arg_dict['incremental_predicates'])) }}
{%- endmacro %}

{# Keys with nulls are keys like others: compared by `=`, their rows would be inserted once more in every run. #}
{% macro arctic_same_key(unique_key, dest_columns) -%}
  {%- for key in adapter.list_named_columns('columns', 'unique_key', unique_key, dest_columns | map(attribute='name') | list) -%}
    DBT_INTERNAL_SOURCE.{{ key }} <=> DBT_INTERNAL_DEST.{{ key }}{{ ' and ' if not loop.last }}
  {%- endfor -%}
{%- endmacro %}

{% macro arctic_and_predicates(incremental_predicates) -%}
  {%- set predicates = [incremental_predicates] if incremental_predicates is string else (incremental_predicates or []) -%}
  {%- for predicate in predicates %} and ({{ predicate }}){% endfor -%}
{%- endmacro %}

{% macro arctic__get_merge_update_columns(merge_update_columns, merge_exclude_columns, dest_columns) -%}
  {{ return(adapter.list_named_columns('updated', merge_update_columns, merge_exclude_columns, dest_columns | map(attribute='name') | list)) }}
{%- endmacro %}

{% macro arctic__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) -%}
  {%- set names = dest_columns | map(attribute='quoted') | list -%}
  {%- set updated = get_merge_update_columns(config.get('merge_update_columns'), config.get('merge_exclude_columns'), dest_columns) -%}
  merge into {{ target.render() }} as DBT_INTERNAL_DEST
  using {{ source.render() }} as DBT_INTERNAL_SOURCE
  on {% if unique_key %}{{ arctic_same_key(unique_key, dest_columns) }}{{ arctic_and_predicates(incremental_predicates) }}{% else %}false{% endif %}
  {% if unique_key and updated -%}
  when matched then update set
    {% for name in updated %}DBT_INTERNAL_DEST.{{ name }} = DBT_INTERNAL_SOURCE.{{ name }}{{ ', ' if not loop.last }}{% endfor %}
  {%- endif %}
  when not matched then insert ({{ names | join(', ') }})
    values ({% for name in names %}DBT_INTERNAL_SOURCE.{{ name }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}

{% macro arctic__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
  {%- if unique_key -%}
  delete from {{ target.render() }} as DBT_INTERNAL_DEST
  where exists (
    select 1 from {{ source.render() }} as DBT_INTERNAL_SOURCE
    where {{ arctic_same_key(unique_key, dest_columns) }}
  ){{ arctic_and_predicates(incremental_predicates) }};
  {%- endif %}
  {{ arctic_insert({'target_relation': target, 'temp_relation': source, 'dest_columns': dest_columns}) }}
{%- endmacro %}

{# The batch's time window is deleted first. Partitions need not follow the batches, so they are not replaced as such. #}
{% macro arctic__get_incremental_microbatch_sql(arg_dict) -%}
  {%- set batch = model.batch -%}
  {%- set window -%}
  delete from {{ arg_dict['target_relation'].render() }}
  where {{ adapter.write_event_filter(config.get('event_time'), batch.event_time_start, batch.event_time_end) }};
  {%- endset -%}
  {{ return(window ~ '\n' ~ arctic_insert(arg_dict)) }}
{%- endmacro %}
