{{ config(meta={'arctic': {'primary_key': 'order_id'}}) }}
-- every order with its customer
select o.order_id, o.customer_id, c.name, o.amount
from {{ source('ods', 'orders') }} o left join {{ ref('customers') }} c using (customer_id)

