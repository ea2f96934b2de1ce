{{ config(
    primary_key  = ['tailnum', 'origin', 'dest', 'flight_month'],
    partition_by = ['flight_month'],
) }}
select
    tailnum,
    origin,
    dest,
    flight_month,
    max(plane_owner) as plane_owner,
    max(plane_model) as plane_model,
    count(*) as departures,
    sum(distance_miles) as distance_miles,
    coalesce(sum(air_time_minutes), 0) as air_time_minutes,
    sum(plane_seats) as seats_offered,
    sum(arr_delay_minutes) / nullif(count(arr_delay_minutes), 0) as average_arr_delay_minutes
from {{ ref('dwd_flights') }}
where tailnum is not null and departed_at is not null
group by tailnum, origin, dest, flight_month
