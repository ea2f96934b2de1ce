{{ config(
    primary_key     = ['origin', 'observed_hour'],
    input           = 'changes',
    sequence_by     = 'lsn',
    delete_when     = "op = 'd'",
    exclude_columns = ['op', 'lsn'],
    merge           = 'on_read',
) }}
select
    origin,
    observed_hour,
    temp_f,
    dewp_f,
    humid_percent,
    wind_dir_degrees,
    wind_speed_mph,
    wind_gust_mph,
    precip_inches,
    pressure_mbar,
    visib_miles,
    event_ts,
    op,
    lsn
from {{ changes(source('landing', 'weather_events')) }}
