{{ config(
    primary_key  = 'flight_id',
    partition_by = ['months(flight_date)'],
    sort_key     = ['scheduled_departure_at'],
) }}
select
    f.flight_id,
    f.flight_date,
    make_date(year(f.flight_date), month(f.flight_date), 1) as flight_month,
    f.carrier,
    a.name as carrier_name,
    f.flight_number,
    f.tailnum,
    p.owner as plane_owner,
    p.manufacturer as plane_manufacturer,
    p.model as plane_model,
    p.seats as plane_seats,
    f.origin,
    o.name as origin_name,
    f.dest,
    d.name as dest_name,
    d.operator as dest_operator,
    f.distance_miles,
    f.scheduled_departure_at,
    f.scheduled_hour,
    f.status,
    f.departed_at,
    f.dep_delay_minutes,
    f.arrived_at,
    f.arr_delay_minutes,
    f.arr_delay_minutes > 15 as arrived_late,
    f.air_time_minutes,
    w.temp_f,
    w.wind_speed_mph,
    w.precip_inches,
    w.visib_miles
from {{ ref('ods_flights') }} as f
left join {{ ref('airlines') }} as a on a.carrier = f.carrier
left join {{ ref('ods_planes') }} as p on p.tailnum = f.tailnum
left join {{ ref('ods_airports') }} as o on o.faa = f.origin
left join {{ ref('ods_airports') }} as d on d.faa = f.dest
left join {{ ref('ods_weather') }} as w on w.origin = f.origin and w.observed_hour = f.scheduled_hour
