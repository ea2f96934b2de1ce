select customer_id, count(*) as orders, sum(amount) as amount from {{ ref('orders_view') }} group by customer_id
