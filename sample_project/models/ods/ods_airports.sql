{{ config(
    primary_key     = 'faa',
    input           = 'changes',
    sequence_by     = 'lsn',
    delete_when     = "op = 'd'",
    exclude_columns = ['op', 'lsn'],
    merge           = 'on_read',
) }}
select
    faa,
    name,
    operator,
    lat,
    lon,
    alt_feet,
    tz_hours,
    dst,
    tzone,
    event_ts,
    op,
    lsn
from {{ changes(source('landing', 'airport_events')) }}
