{{ config(
    primary_key     = 'id',
    input           = 'changes',
    sequence_by     = 'lsn',
    delete_when     = "op = 'd'",
    exclude_columns = ['op', 'lsn'],
    merge           = 'on_read',
) }}
select
    id,
    customer_id,
    grp,
    amount,
    note,
    updated_at,
    op,
    lsn
from {{ changes(source('landing', 'fact_events')) }}
