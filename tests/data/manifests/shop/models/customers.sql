{{ config(materialized='ephemeral') }}
select customer_id, name from {{ source('ods', 'customers') }}
