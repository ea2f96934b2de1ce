{{ config(primary_key='id') }}
select
    f.id,
    f.customer_id,
    f.grp,
    f.amount,
    f.note,
    coalesce(c.city, 'unknown') as city,
    c.grade,
    greatest(f.updated_at, c.updated_at) as updated_at
from {{ ref('ods_facts') }} as f
left join {{ ref('ods_customers') }} as c on c.customer_id = f.customer_id
