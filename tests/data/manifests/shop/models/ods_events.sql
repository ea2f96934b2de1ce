{{ config(meta={'arctic': {'primary_key': 'order_id', 'input': 'changes', 'sequence_by': 'lsn'}}) }}
select order_id, amount, lsn from {{ arctic.changes(source('ods', 'events')) }} -- not {{ source('ods', 'orders') }}
