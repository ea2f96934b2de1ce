{{ config(materialized = 'ephemeral') }}
select * from {{ source('airline', 'airports') }}
