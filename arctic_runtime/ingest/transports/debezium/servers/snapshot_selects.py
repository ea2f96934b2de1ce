"""Builds the queries by which snapshots read values exactly that they would not read exactly by `select *`.

PostgreSQL: Debezium reads dates as `java.sql.Date`, which drops the era and uses the Julian calendar before 1582, so
that dates before Christ would become dates after Christ. A number in place of a date is taken by Debezium as days since
1970. MySQL and MariaDB: the server rounds the text of a `float` to six digits, and that of a `float(m,d)` or
`double(m,d)` to `d` decimals; a computed `double` is shown with all digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arctic_runtime.ingest.transports.debezium.connection import SNAPSHOT_SELECTS, DebeziumConnection

POSTGRESQL_DATES = """
with recursive dates(oid) as (
  select 'date'::regtype::oid union select t.oid from pg_type t join dates d on t.typbasetype = d.oid
)
select n.nspname || '.' || c.relname, a.attname, format('%I.%I', n.nspname, c.relname), format('t.%I', a.attname),
  case when a.atttypid in (select oid from dates) then format(
    'case when isfinite(t.%1$I) then t.%1$I - date ''epoch'' when t.%1$I > date ''epoch'' then -2147472692 '
    'when t.%1$I < date ''epoch'' then -2147472691 end as %1$I', a.attname) end
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
  and n.nspname not in ('pg_catalog', 'information_schema')
  and exists (
    select from pg_attribute d where d.attrelid = c.oid and d.attnum > 0 and not d.attisdropped
      and d.atttypid in (select oid from dates)
  )
order by n.nspname, c.relname, a.attnum
"""
"""The query for all columns of tables that have a date column, or a column of a domain over dates.

A row has the names of the table and the column; then, quoted for SQL, the table and the column; and for a date column
the SQL expression of its days since 1970, else null. Infinite dates get the same days as in the stream.
"""

MYSQL_FLOATS = """
select concat(c.table_schema, '.', c.table_name), c.column_name,
  concat('`', replace(c.table_schema, '`', '``'), '`.`', replace(c.table_name, '`', '``'), '`'),
  concat('t.`', replace(c.column_name, '`', '``'), '`'),
  case when c.data_type in ('float', 'double') or c.extra like '%INVISIBLE%' then concat(
    't.`', replace(c.column_name, '`', '``'), if(c.data_type in ('float', 'double'), '` * 1e0', '`'),
    ' as `', replace(c.column_name, '`', '``'), '`') end
from information_schema.columns c
where (c.table_schema, c.table_name) in (
  select f.table_schema, f.table_name from information_schema.columns f where f.data_type in ('float', 'double')
)
order by c.table_schema, c.table_name, c.ordinal_position
"""
"""The query for all columns of tables that have a `float` or `double`, in rows as those of POSTGRESQL_DATES.

Such a column has an expression of the same value as a `double` that is shown with all digits. An invisible column has
one too, since `t.*` lacks it.
"""


def build_snapshot_queries(rows: Iterable[Sequence[str | None]], connection: DebeziumConnection) -> Mapping[str, str]:
    """Builds Debezium's properties by which a snapshot reads columns by their expressions.

    `rows` is a result of POSTGRESQL_DATES or MYSQL_FLOATS. If some columns of a table are excluded, its query lists the
    others. Otherwise it selects `t.*`: a column that is added at this moment then ends the snapshot with an error,
    instead of being null.
    """
    tables: dict[str, list[tuple[bool, str, str | None]]] = {}
    for table, column, of_table, of_column, expression in rows:
        if connection.is_read(str(table)):
            is_read = connection.is_column_read(str(table), str(column))
            tables.setdefault(str(of_table), []).append((is_read, str(of_column), expression))
    selects = {}
    for table, columns in tables.items():
        read = [(column, expression) for is_read, column, expression in columns if is_read]
        expressions = [expression for _, expression in read if expression is not None]
        if expressions:
            # If two columns have the same name, Debezium takes the later one.
            plain = ["t.*"] if len(read) == len(columns) else [name for name, expression in read if expression is None]
            selects[table] = " ".join(["select", ", ".join([*plain, *expressions]), "from", table, "t"])
    own = {f"{SNAPSHOT_SELECTS}.{table}": select for table, select in selects.items()}
    return {SNAPSHOT_SELECTS: ",".join(selects), **own} if selects else {}
