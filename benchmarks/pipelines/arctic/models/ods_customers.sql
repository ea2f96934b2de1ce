{{ config(
    primary_key     = 'customer_id',
    input           = 'changes',
    sequence_by     = 'lsn',
    delete_when     = "op = 'd'",
    exclude_columns = ['op', 'lsn'],
) }}
select
    customer_id,
    city,
    grade,
    updated_at,
    op,
    lsn
from {{ changes(source('landing', 'customer_events')) }}
