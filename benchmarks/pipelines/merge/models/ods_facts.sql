{{ config(unique_key='id') }}
with events as (
    select
        *,
        row_number() over (partition by id order by lsn desc) as place
    from {{ source('landing', 'fact_events') }}
    {% if is_incremental() %}
    where updated_at > (select max(updated_at) from {{ this }})
    {% endif %}
)

select
    id,
    customer_id,
    grp,
    amount,
    note,
    updated_at
from events
where place = 1 and op <> 'd'
