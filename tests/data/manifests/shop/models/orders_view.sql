{{ config(materialized='view') }}
select * from {{ ref('dwd_orders') }}
