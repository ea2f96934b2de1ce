{% snapshot snapshot_of_rows %}
{{ config(unique_key='id', strategy='check', check_cols='all', hard_deletes='invalidate') }}
select id, a, b, c, d, e from lake.bench.keyed
{% endsnapshot %}
