{{ config(
    primary_key = ['carrier', 'flight_date'],
    sort_key    = ['flight_date'],
) }}
select
    carrier,
    flight_date,
    max(carrier_name) as carrier_name,
    count(*) as flights,
    count(departed_at) as departures,
    count(arrived_at) as arrivals,
    sum(case when arrived_late then 1 else 0 end) as late_arrivals,
    coalesce(sum(dep_delay_minutes), 0) as dep_delay_minutes,
    coalesce(sum(arr_delay_minutes), 0) as arr_delay_minutes,
    max(arr_delay_minutes) as longest_arr_delay_minutes,
    sum(dep_delay_minutes) / nullif(count(dep_delay_minutes), 0) as average_dep_delay_minutes,
    sum(arr_delay_minutes) / nullif(count(arr_delay_minutes), 0) as average_arr_delay_minutes
from {{ ref('dwd_flights') }}
group by carrier, flight_date
