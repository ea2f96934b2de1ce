{{ config(materialized = 'ephemeral') }}
select * from {{ source('airline', 'flights') }}
