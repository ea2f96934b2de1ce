{% materialization snapshot, adapter='arctic' %}
  {%- do arctic_drop_clone_view() -%}
  {%- do apply_grants(this, config.get('grants'), false) -%}
  {{ return(materialization_snapshot_default()) }}
{% endmaterialization %}

{# dbt's own columns of a snapshot, quoted. #}
{% macro arctic_snapshot_columns() -%}
  {%- set quoted = {} -%}
  {%- for key, name in (config.get('snapshot_table_column_names') or get_snapshot_table_column_names()).items() -%}
    {%- do quoted.update({key: adapter.quote(name)}) -%}
  {%- endfor -%}
  {{ return(quoted) }}
{%- endmacro %}

{# A strategy, whose key and time are quoted where they are columns and are expressions where they are not. #}
{% macro arctic_snapshot_strategy(names, updated_at, row_changed) -%}
  {%- set keys = adapter.list_named_columns('columns_or_expressions', config.get('unique_key'), names) -%}
  {%- set time = adapter.list_named_columns('columns_or_expressions', updated_at, names) | first -%}
  {%- set hard_deletes = adapter.get_hard_deletes_behavior(config) -%}
  {{ return({
    'unique_key': keys,
    'updated_at': time,
    'row_changed': row_changed,
    'scd_id': snapshot_hash_arguments(keys + [time]),
    'invalidate_hard_deletes': hard_deletes == 'invalidate',
    'hard_deletes': hard_deletes
  }) }}
{%- endmacro %}

{% macro snapshot_timestamp_strategy(node, snapshotted_rel, current_rel, model_config, target_exists) -%}
  {%- set names = get_columns_in_query(node['compiled_code']) -%}
  {%- set updated_at = adapter.list_named_columns('columns_or_expressions', config.get('updated_at'), names) | first -%}
  {%- set row_changed = '(' ~ snapshotted_rel ~ '.' ~ arctic_snapshot_columns().dbt_valid_from ~ ' < ' ~ current_rel ~ '.' ~ updated_at ~ ')' -%}
  {{ return(arctic_snapshot_strategy(names, updated_at, row_changed)) }}
{%- endmacro %}

{# A column that is checked for the first time has changed in every row. #}
{% macro snapshot_check_strategy(node, snapshotted_rel, current_rel, model_config, target_exists) -%}
  {%- set names = get_columns_in_query(node['compiled_code']) -%}
  {%- set check_cols = config.get('check_cols') -%}
  {%- set checked = adapter.list_named_columns('columns', 'check_cols', names if check_cols == 'all' else check_cols, names) -%}
  {%- if not checked -%}
    {%- do exceptions.raise_compiler_error("Invalid value for 'check_cols': " ~ check_cols) -%}
  {%- endif -%}
  {%- set existing = adapter.get_columns_in_relation(this) | map(attribute='quoted') | map('lower') | list if target_exists else [] -%}
  {%- set differences = [] -%}
  {%- for column in checked -%}
    {%- do differences.append(
      'not (' ~ snapshotted_rel ~ '.' ~ column ~ ' <=> ' ~ current_rel ~ '.' ~ column ~ ')' if column | lower in existing else get_true_sql()) -%}
  {%- endfor -%}
  {{ return(arctic_snapshot_strategy(names, config.get('updated_at') or snapshot_get_time(), '(' ~ differences | join(' or ') ~ ')')) }}
{%- endmacro %}

{# dbt's ids, made so that other arguments have another id: nulls and bars inside of them are marked. #}
{% macro arctic__snapshot_hash_arguments(args) -%}
  md5(
  {%- for arg in args -%}
    coalesce(replace(replace(cast({{ arg }} as string), '\\', '\\\\'), '|', '\\|'), '\\N'){{ " || '|' || " if not loop.last }}
  {%- endfor -%}
  )
{%- endmacro %}

{% macro arctic__build_snapshot_table(strategy, sql) -%}
  {%- set columns = arctic_snapshot_columns() -%}
  select *,
    {{ strategy.scd_id }} as {{ columns.dbt_scd_id }},
    {{ strategy.updated_at }} as {{ columns.dbt_updated_at }},
    {{ strategy.updated_at }} as {{ columns.dbt_valid_from }},
    {{ get_dbt_valid_to_current(strategy, columns) }}
    {%- if strategy.hard_deletes == 'new_record' %}, 'False' as {{ columns.dbt_is_deleted }}{% endif %}
  from (
    {{ sql }}
  ) as sbq
{%- endmacro %}

{# A key's columns, and one that is null only where an outer join has no row; a key may be null itself. #}
{% macro arctic_snapshot_key(strategy, names) -%}
  {%- for key in adapter.list_named_columns('columns_or_expressions', strategy.unique_key, names) %}{{ key }} as dbt_unique_key_{{ loop.index }}, {% endfor -%}
  true as arctic_is_there
{%- endmacro %}

{% macro arctic_same_snapshot_key(strategy, names) -%}
  {%- for key in adapter.list_named_columns('columns_or_expressions', strategy.unique_key, names) -%}
    snapshotted_data.dbt_unique_key_{{ loop.index }} <=> source_data.dbt_unique_key_{{ loop.index }}{{ ' and ' if not loop.last }}
  {%- endfor -%}
{%- endmacro %}

{% macro arctic_is_current(relation, columns) -%}
  {%- set current = config.get('dbt_valid_to_current') -%}
  ({{ relation }}.{{ columns.dbt_valid_to }} is null{% if current %} or {{ relation }}.{{ columns.dbt_valid_to }} = {{ current }}{% endif %})
{%- endmacro %}

{# The rows of a merge: versions to open and to close. Columns are spelled as the table has them. #}
{% macro arctic__snapshot_staging_table(strategy, source_sql, target_relation) -%}
  {%- set source_sql = arctic_node_sql(source_sql) -%}
  {%- set columns = arctic_snapshot_columns() -%}
  {%- set names = get_columns_in_query(source_sql) -%}
  {%- set existing = {} -%}
  {%- for column in adapter.get_columns_in_relation(target_relation) -%}{%- do existing.update({column.name | lower: column.name}) -%}{%- endfor -%}
  {%- set with_deletes = strategy.hard_deletes in ('invalidate', 'new_record') -%}
  {%- set with_records = strategy.hard_deletes == 'new_record' -%}
  {%- set is_deleted = "snapshotted_data." ~ columns.dbt_is_deleted ~ " <=> 'True'" -%}
  with snapshot_query as (
    {{ source_sql }}
  ),
  snapshotted_data as (
    select *, {{ arctic_snapshot_key(strategy, existing.values()) }}
    from {{ target_relation.render() }} as versions
    where {{ arctic_is_current('versions', columns) }}
  ),
  source_data as (
    select *, {{ arctic_snapshot_key(strategy, names) }},
      {{ strategy.updated_at }} as {{ columns.dbt_updated_at }},
      {{ strategy.updated_at }} as {{ columns.dbt_valid_from }},
      {{ get_dbt_valid_to_current(strategy, columns) }},
      {{ strategy.scd_id }} as {{ columns.dbt_scd_id }}
    from snapshot_query
  ),
  changed as (
    select source_data.*,
      snapshotted_data.{{ columns.dbt_scd_id }} as arctic_scd_id,
      snapshotted_data.arctic_is_there is not null as arctic_is_known
    from source_data
    left join snapshotted_data on {{ arctic_same_snapshot_key(strategy, names) }}
    where snapshotted_data.arctic_is_there is null or {{ strategy.row_changed }}
      {%- if with_records %} or {{ is_deleted }}{% endif %}
  )
  {%- if with_deletes %},
  gone as (
    select snapshotted_data.*
    from snapshotted_data
    left anti join source_data on {{ arctic_same_snapshot_key(strategy, names) }}
    {%- if with_records %}
    where not ({{ is_deleted }})
    {%- endif %}
  )
  {%- endif %}
  {{ arctic_staged_rows('changed', 'insert', names, existing, names, [columns.dbt_updated_at, columns.dbt_valid_from, columns.dbt_valid_to, columns.dbt_scd_id], columns, "'False'" if with_records) }}
  union all
  {{ arctic_staged_rows('changed', 'update', names, existing, names, [columns.dbt_updated_at, columns.dbt_valid_from, columns.dbt_updated_at, 'arctic_scd_id'], columns, "'False'" if with_records) }}
  where arctic_is_known
  {%- if with_deletes %}
  union all
  {{ arctic_staged_rows('gone', 'delete', names, existing, existing.values(), [snapshot_get_time(), snapshot_get_time(), snapshot_get_time(), columns.dbt_scd_id], columns, "'False'" if with_records) }}
  {%- endif %}
  {%- if with_records %}
  union all
  {{ arctic_staged_rows('gone', 'insert', names, existing, existing.values(), [snapshot_get_time(), snapshot_get_time(), columns.dbt_valid_to, snapshot_hash_arguments([columns.dbt_scd_id, snapshot_get_time()])], columns, "'True'") }}
  {%- endif %}
{%- endmacro %}

{# One kind of rows: the columns of the query, of which `relation` may lack some, then dbt's own. #}
{% macro arctic_staged_rows(relation, change_type, names, existing, available, values, columns, is_deleted) -%}
  {%- set present = available | map('lower') | list -%}
  select '{{ change_type }}' as dbt_change_type,
    {% for name in names -%}
      {{ adapter.quote(name) if name | lower in present else 'null' }} as {{ adapter.quote(existing.get(name | lower, name)) }},
    {% endfor -%}
    {{ values[0] }} as {{ columns.dbt_updated_at }},
    {{ values[1] }} as {{ columns.dbt_valid_from }},
    {{ values[2] }} as {{ columns.dbt_valid_to }},
    {{ values[3] }} as {{ columns.dbt_scd_id }}
    {%- if is_deleted %}, {{ is_deleted }} as {{ columns.dbt_is_deleted }}{% endif %}
  from {{ relation }}
{%- endmacro %}

{% macro arctic__snapshot_merge_sql(target, source, insert_cols) -%}
  {%- set columns = arctic_snapshot_columns() -%}
  merge into {{ target.render() }} as DBT_INTERNAL_DEST
  using {{ source.render() }} as DBT_INTERNAL_SOURCE
  on DBT_INTERNAL_SOURCE.{{ columns.dbt_scd_id }} = DBT_INTERNAL_DEST.{{ columns.dbt_scd_id }}
  when matched
    and {{ arctic_is_current('DBT_INTERNAL_DEST', columns) }}
    and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    then update set DBT_INTERNAL_DEST.{{ columns.dbt_valid_to }} = DBT_INTERNAL_SOURCE.{{ columns.dbt_valid_to }}
  when not matched
    and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
    then insert ({{ insert_cols | join(', ') }})
    values ({% for name in insert_cols %}DBT_INTERNAL_SOURCE.{{ name }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}

{% macro arctic__post_snapshot(staging_relation) -%}
  {% do adapter.drop_relation(staging_relation) %}
{%- endmacro %}
