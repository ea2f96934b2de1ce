-- Days on which the flights of a layer are not as many as those of the layer below: there are none.
with counted as (
    select flight_date, count(*) as ods, 0 as dwd, 0 as dws from {{ ref('ods_flights') }} group by flight_date
    union all
    select flight_date, 0, count(*), 0 from {{ ref('dwd_flights') }} group by flight_date
    union all
    select flight_date, 0, 0, sum(flights) from {{ ref('dws_delay_by_carrier_day') }} group by flight_date
)

select flight_date, sum(ods) as ods, sum(dwd) as dwd, sum(dws) as dws
from counted
group by flight_date
having sum(ods) <> sum(dwd) or sum(dwd) <> sum(dws)
