"""Checks, by PostgreSQL's catalog, that tables have the same rows and columns in a snapshot and the stream.

Each rule is a query for tables or columns that violate it. If ingestion reads one of them, the rule describes the fault
and the fix. The columns of events are numbered by the catalog, and get their values in rows older than they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from arctic_runtime.errors import SourceError, suggest_nearest
from arctic_runtime.ingest.formats.event_format import (
    NULL_IN_OLDER_ROWS,
    UNKNOWN_IN_OLDER_ROWS,
    CatalogColumn,
    NumberedColumns,
    OlderRows,
    SourceColumn,
    build_unknown_value,
)
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.source_database import Row, SourceDatabase
from arctic_runtime.ingest.transports.transport import TableGone

_KINDS = """
select n.nspname || '.' || c.relname,
  case when c.relkind = 'v' then 'a view' when c.relkind = 'm' then 'a materialized view'
    when c.relkind = 'f' then 'a foreign table' when c.relpersistence = 'u' then 'an unlogged table'
    when c.relpersistence = 't' then 'a temporary table' end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname not in ('pg_catalog', 'information_schema')
"""
_COLUMNS_OF = """
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
  and n.nspname not in ('pg_catalog', 'information_schema')
"""
_GENERATED = f"""
select n.nspname || '.' || c.relname, a.attname, null {_COLUMNS_OF} and a.attgenerated <> ''
order by n.nspname, c.relname, a.attnum
"""
_UNREADABLE = f"""
select n.nspname || '.' || c.relname, a.attname,
  format('grant usage on schema %I to %I; grant select on %I.%I to %I', n.nspname, current_user,
    n.nspname, c.relname, current_user)
{_COLUMNS_OF}
  and not (has_schema_privilege(n.oid, 'usage') and has_column_privilege(c.oid, a.attnum, 'select'))
order by n.nspname, c.relname, a.attnum
"""
_HIDDEN_ROWS = """
select n.nspname || '.' || c.relname, null, format('alter role %I bypassrls', current_user)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and row_security_active(c.oid) order by 1
"""
_UNLOGGED_PARTITIONS = """
select n.nspname || '.' || c.relname, null, string_agg(part.oid::regclass::text, ', ')
from pg_class c join pg_namespace n on n.oid = c.relnamespace cross join pg_partition_tree(c.oid) leaf
join pg_class part on part.oid = leaf.relid
where c.relkind = 'p' and (part.relkind = 'f' or part.relpersistence <> 'p') group by 1 order by 1
"""
_IDENTITY_WITHOUT_KEY = """
select n.nspname || '.' || c.relname, null, format('alter table %I.%I replica identity default', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
join pg_index pk on pk.indrelid = c.oid and pk.indisprimary
join pg_index i on i.indrelid = c.oid and i.indisreplident
where c.relkind in ('r', 'p') and c.relreplident = 'i' and not (pk.indkey::int2[] <@ i.indkey::int2[]) order by 1
"""


@dataclass(frozen=True)
class _ReadabilityRule:
    """A check, by a query for tables or columns that can't be read exactly.

    Each row of the query has the table, the column or null, and a text for the advice. `describe` converts the rows to
    a description of the fault, and the advice. A rule with `is_of_snapshot` is checked only before a snapshot.
    """

    sql: str
    describe: Callable[[Sequence[Row]], tuple[str, str]]
    is_of_snapshot: bool = False


def _get_name(row: Row) -> str:
    return str(row[0]) if row[1] is None else f"{row[0]}.{row[1]}"


def _join_names(rows: Sequence[Row]) -> str:
    return ", ".join(_get_name(row) for row in rows)


def _join_advice(rows: Sequence[Row]) -> str:
    return "; ".join(dict.fromkeys(str(row[2]) for row in rows))


def describe_generated(rows: Sequence[Row]) -> tuple[str, str]:
    """Describes why generated columns can't be read, and how to leave them out.

    `rows` are as described in `_ReadabilityRule`.
    """
    patterns = ",".join(re.escape(_get_name(row)) for row in rows)
    return (
        f"the log does not have generated columns, so that they would keep the values of the "
        f"snapshot: {_join_names(rows)}",
        f"leave them out, with the Debezium property `column.exclude.list: {patterns}`, and compute "
        "them in a model; or take out their tables and load these in another way",
    )


_RULES = (
    _ReadabilityRule(_GENERATED, describe_generated),
    _ReadabilityRule(
        _UNREADABLE,
        lambda rows: (
            f"the user may not read {', '.join(dict.fromkeys(str(row[0]) for row in rows))}",
            f"as their owner, `{_join_advice(rows)}`",
        ),
        is_of_snapshot=True,
    ),
    _ReadabilityRule(
        _HIDDEN_ROWS,
        lambda rows: (
            f"row-level security may hide rows of {_join_names(rows)} from a snapshot, and the log has the changes "
            "of all rows",
            f"`{_join_advice(rows)}`, or take these tables out",
        ),
        is_of_snapshot=True,
    ),
    _ReadabilityRule(
        _UNLOGGED_PARTITIONS,
        lambda rows: (
            f"{_join_names(rows)} has partitions of which no change is logged: {_join_advice(rows)}",
            "ingest the other partitions under their own names",
        ),
    ),
    _ReadabilityRule(
        _IDENTITY_WITHOUT_KEY,
        lambda rows: (
            f"the log does not say which row is deleted or gets another primary key, since the replica "
            f"identity is an index without the primary key: {_join_names(rows)}",
            f"`{_join_advice(rows)}`, or `full`",
        ),
    ),
)


def check_tables(connection: DebeziumConnection, database: SourceDatabase, is_snapshot: bool) -> None:
    """Raises SourceError, with a fix, if the stream of the tables that are read would not match their snapshot.

    `is_snapshot` is whether a snapshot is about to begin; otherwise rules for snapshots are skipped.
    """
    for rule in _RULES:
        if rule.is_of_snapshot and not is_snapshot:
            continue
        rows = [row for row in database.fetch_rows(rule.sql) if _is_read(connection, row)]
        if rows:
            what, fix = rule.describe(rows)
            raise SourceError(f"{connection.address}: {what}.", fix=fix)


def check_kinds(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError if a table to read does not exist, or is a relation whose changes are not logged."""
    kinds = {str(row[0]): row[1] for row in database.fetch_rows(_KINDS)}
    for pattern in connection.tables:
        if (error := _find_fault(connection, kinds, pattern)) is not None:
            raise error


def find_unlogged(
    connection: DebeziumConnection, database: SourceDatabase, tables: Collection[str]
) -> dict[str, SourceError]:
    """Returns those of `tables` that do not exist, or whose changes are not logged, each with the error."""
    kinds = {str(row[0]): row[1] for row in database.fetch_rows(_KINDS)}
    faults = {table: _find_fault(connection, kinds, re.escape(table)) for table in tables}
    return {table: error for table, error in faults.items() if error is not None}


def _find_fault(connection: DebeziumConnection, kinds: Mapping[str, str | None], pattern: str) -> SourceError | None:
    """Returns the error for a table to read that is missing or not logged; None if there is none.

    `kinds` are the results of `_KINDS`, by table.
    """
    matches = [name for name in kinds if re.fullmatch(pattern, name)]
    if not matches:
        return TableGone(
            f"{connection.address}: there is no table {pattern}{suggest_nearest(pattern, list(kinds))}.",
            fix="if it was renamed or dropped, name another one by `source_table`, or take it out of the project",
        )
    if all(kinds[name] is not None for name in matches):
        return SourceError(
            f"{connection.address}: {matches[0]} is {kinds[matches[0]]}, of which no change is logged.",
            fix="ingest the tables that it is made of, or load it in another way and take it out here",
        )
    return None


def _is_read(connection: DebeziumConnection, row: Row) -> bool:
    table, column, _ = row
    return connection.is_read(str(table)) if column is None else connection.is_column_read(str(table), str(column))


_ELEMENTS = {
    *("int2", "int4", "int8", "numeric", "float4", "float8", "bool", "text", "varchar", "bpchar", "citext", "uuid"),
    *("inet", "cidr", "macaddr", "date", "timestamp", "timestamptz", "bytea"),
    *("tsvector", "int4range", "int8range", "numrange"),
}
"""Types of array elements whose JSON in PostgreSQL has the text that Spark casts to the same value."""

_TYPES = _ELEMENTS | {
    *("json", "jsonb", "xml", "ltree", "macaddr8", "oid", "bit", "money", "time", "timetz", "interval"),
    *("tsrange", "tstzrange", "daterange"),
}
"""Types whose value in `COLUMNS` is the text that an event has, or one that Spark casts to the same value."""

COLUMNS = """
with recursive bases(number, type, base) as (
  select a.attnum, t.oid, t.typbasetype from pg_attribute a join pg_type t on t.oid = a.atttypid
    where a.attrelid = (select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = ? and c.relname = ?) and a.attnum > 0
  union all select number, t.oid, t.typbasetype from pg_type t join bases on t.oid = base
)
select a.attnum, a.attname, a.attisdropped, a.attgenerated <> '',
  exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
    where p.pubname = ? and r.prrelid = a.attrelid and to_jsonb(r) ->> 'prattrs' is not null),
  a.atthasdef or a.attidentity <> '', a.atthasmissing,
  case when b.typcategory = 'A' then array_to_json(a.attmissingval) ->> 0
    when b.typname = 'bytea' then encode(m.value::bytea, 'hex')
    when b.typname = 'money' then m.value::money::numeric::text
    when b.typname = 'time' then to_char(m.value::time, 'HH24:MI:SS.US')
    when b.typname = 'timetz' then
      rtrim(rtrim(to_char((m.value::timetz at time zone 'UTC')::time, 'HH24:MI:SS.US'), '0'), '.') || 'Z'
    when b.typname = 'interval' then format('P%sY%sM%sDT%sH%sM%sS', extract(year from m.value::interval),
      extract(month from m.value::interval), extract(day from m.value::interval),
      extract(hour from m.value::interval), extract(minute from m.value::interval),
      rtrim(rtrim(to_char(extract(second from m.value::interval), 'FM90.000000'), '0'), '.'))
    else m.value end,
  coalesce(e.typname, b.typname), coalesce(e.typtype, b.typtype), b.typcategory = 'A', a.attrelid
from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
left join bases on bases.number = a.attnum and bases.base = 0
left join pg_type b on b.oid = bases.type
left join pg_type e on e.oid = b.typelem and b.typcategory = 'A'
cross join lateral (select (a.attmissingval::text::text[])[1]) m(value)
where n.nspname = ? and c.relname = ? and a.attnum > 0
order by a.attnum
"""
"""Query for all columns that a table has or had.

Its parameters are schema and table, the publication, then schema and table again. A domain has the type that it is
based on. PostgreSQL keeps the value of older rows in `attmissingval`, an array with one element.
"""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table in PostgreSQL's catalog.

    `kind` is its type, or that of the elements `is_array` says it has, and `is_enum` whether that is an enumeration.
    If `has_value`, `value` is the text of its value in rows that are older than the column. `is_listed` is whether the
    publication has a list of columns for the table. `table_id` is the number of the table.
    """

    number: int
    name: str
    kind: str = "text"
    is_dropped: bool = False
    is_generated: bool = False
    is_listed: bool = False
    has_default: bool = False
    has_value: bool = False
    value: str | None = None
    is_enum: bool = False
    is_array: bool = False
    table_id: str | None = None


def read_columns(rows: Sequence[Row]) -> list[TableColumn]:
    """Converts the result of the query `COLUMNS`."""
    return [
        TableColumn(
            number=int(number or 0),
            name=str(name),
            kind=str(kind),
            is_dropped=dropped == "t",
            is_generated=generated == "t",
            is_listed=listed == "t",
            has_default=default == "t",
            has_value=missing == "t",
            value=value,
            is_enum=group == "e",
            is_array=array == "t",
            table_id=table_id,
        )
        for number, name, dropped, generated, listed, default, missing, value, kind, group, array, table_id in rows
    ]


def number_columns(columns: Sequence[SourceColumn], table: Sequence[TableColumn], is_chosen: bool) -> NumberedColumns:
    """Returns the columns of events with their numbers in the table; a column that can't be identified gets none.

    Events and the table have their columns in the same order. If events have all columns and none was dropped, the
    columns are identified by their positions, since the events may be older than the table's current definition;
    otherwise by their names. `is_chosen` is whether the user's properties leave columns out of the events.
    """
    table_id = table[0].table_id if table else None
    if is_chosen or any(column.is_generated or column.is_listed for column in table):
        return NumberedColumns(_match_by_name(columns, table, has_all_columns=False), table_id=table_id)
    catalog = tuple(CatalogColumn(one.number, _get_older_rows_value(one), one.is_dropped) for one in table)
    is_prefix = len(columns) < len(table) and not any(column.is_dropped for column in table)
    if is_prefix or len(columns) == len(table):
        pairs = zip(columns, table, strict=False)
        return NumberedColumns(tuple(_with_number(column, own) for column, own in pairs), catalog, table_id)
    return NumberedColumns(_match_by_name(columns, table, has_all_columns=True), catalog, table_id)


def _match_by_name(
    columns: Sequence[SourceColumn], table: Sequence[TableColumn], has_all_columns: bool
) -> tuple[SourceColumn, ...]:
    """Returns the columns of events with the numbers of the columns of the same names in `table`, matched in order.

    `has_all_columns` is whether events have all columns of the table. Then a column gets no number if table columns
    before it were skipped: its name may since have passed to another column.
    """
    left = [own for own in table if not own.is_dropped]
    matched = []
    for column in columns:
        place = next((i for i, own in enumerate(left) if own.name == column.name), None)
        if place is None or (has_all_columns and place > 0):
            matched.append(replace(column, older_rows=UNKNOWN_IN_OLDER_ROWS))
        else:
            matched.append(_with_number(column, left[place]))
            left = left[place + 1 :]
    return tuple(matched)


def _with_number(column: SourceColumn, own: TableColumn) -> SourceColumn:
    """Returns a column with its number and its value in rows older than the column, from the catalog.

    Sets the encoding if the column has a domain over decimals, which the schema of events does not show.
    """
    is_decimal = own.kind == "numeric" and column.type == "string"
    known = replace(column, encoding="decimal_text") if is_decimal else column
    return replace(known, number=own.number, older_rows=_get_older_rows_value(own))


def _get_older_rows_value(column: TableColumn) -> OlderRows:
    """Returns the value of a column in rows that are older than it.

    PostgreSQL stores one value for all of these rows, unless the default differs from row to row, or the table was
    rewritten since the column was added.
    """
    if column.is_dropped:
        return build_unknown_value("it was dropped meanwhile")
    if not column.has_value:
        return _DIFFERING if column.has_default else NULL_IN_OLDER_ROWS
    text = _convert_array(column) if column.is_array else _convert_scalar(column)
    return build_unknown_value(f"a value of its type {column.kind} can't be converted") if text is None else text


_DIFFERING = build_unknown_value(
    "its default differs from row to row or was set later, or the table was rewritten meanwhile"
)


def _convert_scalar(column: TableColumn) -> OlderRows | None:
    """Converts the value of a column in older rows; None for a type whose values have no exact text."""
    if not column.is_enum and column.kind not in _TYPES:
        return None
    if column.kind != "bit" or column.value is None or len(column.value) == 1:
        return OlderRows(True, column.value)
    width = (len(column.value) + 7) // 8
    return OlderRows(True, int(column.value, 2).to_bytes(width, "little").hex())


def _convert_array(column: TableColumn) -> OlderRows | None:
    """Converts an array in older rows to JSON of texts; None for elements whose values have no exact text."""
    if column.value is None or not (column.is_enum or column.kind in _ELEMENTS):
        return None
    elements = json.loads(column.value, parse_int=str, parse_float=str)
    if any(isinstance(element, (list, dict)) for element in elements):
        return None
    texts = [str(element).lower() if isinstance(element, bool) else element for element in elements]
    if column.kind == "bytea":
        if not all(text is None or text.startswith("\\x") for text in texts):
            return None
        texts = [text and text[2:] for text in texts]
    return OlderRows(True, json.dumps(texts))
