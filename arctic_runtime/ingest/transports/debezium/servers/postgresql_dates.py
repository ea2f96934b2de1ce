"""Builds the query by which a snapshot of PostgreSQL reads dates as days since 1970, which is exact for all dates.

By default Debezium reads them as `java.sql.Date`, which drops the era and follows another calendar before 1582. So
dates before Christ would become dates after Christ. If Debezium gets a number for a date, it takes it as days since
1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arctic_runtime.ingest.transports.debezium.connection import SNAPSHOT_SELECTS, DebeziumConnection

DATE_COLUMNS = """
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
"""The query for the columns of tables that have dates, or domains over dates. Its rows are the names of the table and
the column; then, quoted for a query, the table, the column, and for a date the expression of its days, else null.
Infinite dates get the same days as in the stream."""


def snapshot_selects(rows: Iterable[Sequence[str | None]], connection: DebeziumConnection) -> Mapping[str, str]:
    """Builds Debezium's properties with which a snapshot reads dates as days since 1970.

    `rows` is a result of DATE_COLUMNS. Tables for which the user has set a snapshot query are left out. Columns are
    listed only if some are excluded. Otherwise `t.*` is selected: a column that is added at this moment then ends the
    snapshot, instead of being null.
    """
    tables: dict[str, list[tuple[bool, str, str | None]]] = {}
    for table, column, of_table, of_column, days in rows:
        if connection.is_read(str(table)):
            is_read = connection.is_column_read(str(table), str(column))
            tables.setdefault(str(of_table), []).append((is_read, str(of_column), days))
    selects = {}
    for table, columns in tables.items():
        read = [(column, days) for is_read, column, days in columns if is_read]
        dates = [days for _, days in read if days is not None]
        if dates:
            # If two columns have the same name, Debezium takes the later one.
            plain = ["t.*"] if len(read) == len(columns) else [column for column, days in read if days is None]
            selects[table] = " ".join(["select", ", ".join([*plain, *dates]), "from", table, "t"])
    own = {f"{SNAPSHOT_SELECTS}.{table}": select for table, select in selects.items()}
    return {SNAPSHOT_SELECTS: ",".join(selects), **own} if selects else {}
