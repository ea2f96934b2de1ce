{{ config(materialized='arctic', primary_key='id', history='scd2') }}
select id, a, b, c, d, e from lake.bench.keyed
