{{ config(materialized='arctic', primary_key='customer') }}
select customer, count(*) as orders, sum(amount) as amount
from {{ source('shop', 'orders') }}
group by customer
