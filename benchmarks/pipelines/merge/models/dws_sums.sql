{{ config(unique_key=['city', 'grp']) }}
select
    city,
    grp,
    count(*) as facts,
    sum(amount) as total,
    max(updated_at) as updated_at
from {{ ref('dwd_facts') }}
{% if is_incremental() %}
where (city, grp) in (
    select city, grp
    from {{ ref('dwd_facts') }}
    where updated_at > (select max(updated_at) from {{ this }})
)
{% endif %}
group by city, grp
