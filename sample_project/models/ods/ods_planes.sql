{{ config(
    primary_key     = 'tailnum',
    input           = 'changes',
    sequence_by     = 'lsn',
    delete_when     = "op = 'd'",
    exclude_columns = ['op', 'lsn'],
    merge           = 'on_read',
) }}
select
    tailnum,
    owner,
    year_built,
    type,
    manufacturer,
    model,
    engines,
    engine,
    seats,
    event_ts,
    op,
    lsn
from {{ changes(source('landing', 'plane_events')) }}
