select * from {{ ref('dwd_orders') }} where amount < 0
