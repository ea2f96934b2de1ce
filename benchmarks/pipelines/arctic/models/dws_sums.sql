{{ config(primary_key=['city', 'grp']) }}
select
    city,
    grp,
    count(*) as facts,
    sum(amount) as total
from {{ ref('dwd_facts') }}
group by city, grp
