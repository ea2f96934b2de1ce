{{ config(
    primary_key = ['origin', 'observed_hour'],
    sort_key    = ['observed_hour'],
) }}
with hours as (
    select
        origin,
        scheduled_hour,
        count(*) as flights,
        count(departed_at) as departures,
        count(dep_delay_minutes) as known_delays,
        sum(dep_delay_minutes) as dep_delay_minutes,
        max(dep_delay_minutes) as longest_dep_delay_minutes
    from {{ ref('dwd_flights') }}
    group by origin, scheduled_hour
)

select
    w.origin,
    w.observed_hour,
    w.temp_f,
    w.wind_speed_mph,
    w.wind_gust_mph,
    w.precip_inches,
    w.visib_miles,
    coalesce(h.flights, 0) as flights,
    coalesce(h.departures, 0) as departures,
    coalesce(h.dep_delay_minutes, 0) as dep_delay_minutes,
    h.longest_dep_delay_minutes,
    h.dep_delay_minutes / nullif(h.known_delays, 0) as average_dep_delay_minutes
from {{ ref('ods_weather') }} as w
left join hours as h on h.origin = w.origin and h.scheduled_hour = w.observed_hour
