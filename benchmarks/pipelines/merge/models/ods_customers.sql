{{ config(unique_key='customer_id') }}
with events as (
    select
        *,
        row_number() over (partition by customer_id order by lsn desc) as place
    from {{ source('landing', 'customer_events') }}
    {% if is_incremental() %}
    where updated_at > (select max(updated_at) from {{ this }})
    {% endif %}
)

select
    customer_id,
    city,
    grade,
    updated_at
from events
where place = 1 and op <> 'd'
