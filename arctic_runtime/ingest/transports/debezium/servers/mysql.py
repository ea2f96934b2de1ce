"""Checks MySQL and MariaDB for rights, settings and tables that Debezium needs, and queries the end of their log."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from arctic_runtime.errors import SourceError, suggest_nearest
from arctic_runtime.ingest.formats.event_format import UNKNOWN_IN_OLDER_ROWS, NumberedColumns, SourceColumn
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import describe_parser_error, list_causes
from arctic_runtime.ingest.transports.debezium.java_methods import NO_MYSQL_DEFAULTS, insert_code
from arctic_runtime.ingest.transports.debezium.jvm import load_java_class
from arctic_runtime.ingest.transports.debezium.mysql_support import EXACT_VALUES, MARIADB_SUPPORT, READABLE_STATEMENTS
from arctic_runtime.ingest.transports.debezium.position import Position, Source
from arctic_runtime.ingest.transports.debezium.servers.ddl_history import (
    ConstantDefault,
    Defined,
    find_definition,
    list_definitions,
)
from arctic_runtime.ingest.transports.debezium.servers.log_orders import (
    BinlogOrder,
    parse_file_number,
    select_transaction_begin,
)
from arctic_runtime.ingest.transports.debezium.servers.mysql_defaults import compute_default
from arctic_runtime.ingest.transports.debezium.servers.source_database import (
    MYSQL_FLOATS,
    RESYNC,
    RightMissing,
    SourceDatabase,
    build_catalog_tables,
    build_snapshot_queries,
)
from arctic_runtime.ingest.transports.transport import CatalogTable, TableGone
from arctic_runtime.thresholds import DebeziumThresholds

CASCADES = "arctic.mysql.cascades"
"""Property that a user sets to `ignore` to declare that foreign keys never change rows by cascades."""

_KINDS = """
select table_schema, table_name, table_type, engine from information_schema.tables
where table_schema not in ('mysql', 'information_schema', 'performance_schema', 'sys')
"""
_ENGINES: Mapping[str, str] = {
    "MEMORY": "lose their rows when the server starts",
    **dict.fromkeys(("FEDERATED", "CONNECT", "SPIDER", "MRG_MYISAM", "BLACKHOLE"), "have their rows elsewhere"),
}
"""Storage engines, in upper case, whose tables change without events in the log, and the reason."""

_CASCADE = re.compile(
    r"CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY [^\n]* ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)"
)

_GRANT = re.compile(r"GRANT (?:.*\b)?(?:SELECT|ALL PRIVILEGES)\b.* ON (?P<place>\S+) TO ")


def check_tables(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError, with a fix, if a table to read is missing, can't be read, or changes without log events."""
    tables = {
        (str(schema), str(table)): (str(kind), str(engine))
        for schema, table, kind, engine in database.fetch_rows(_KINDS)
    }
    names = [".".join(table) for table in tables]
    for pattern in connection.tables:
        if not any(re.fullmatch(pattern, name) for name in names):
            raise _build_gone_error(connection, database, pattern, names)
    for (schema, table), (kind, engine) in tables.items():
        if connection.is_read(f"{schema}.{table}"):
            _check_kind(connection, f"{schema}.{table}", kind, engine)
            _check_definition(connection, database, schema, table)


def find_missing(
    connection: DebeziumConnection, database: SourceDatabase, tables: Collection[str], streamed: Collection[str]
) -> dict[str, SourceError]:
    """Returns those of `tables` that do not exist, or that the user does not see, each with the error.

    A table of `streamed` that the user does not see counts as missing only if he may read it: otherwise it may still be
    there, and its changes are in the log.
    """
    names = [f"{schema}.{table}" for schema, table, *_ in database.fetch_rows(_KINDS)]
    known = {name.casefold() for name in names}
    unseen = [table for table in tables if table.casefold() not in known]
    grants = [str(row[0]) for row in database.fetch_rows("show grants")] if unseen else []
    return {
        table: _build_gone_error(connection, database, table, names)
        for table in unseen
        if table not in streamed or may_read(table, grants)
    }


def may_read(table: str, grants: Sequence[str]) -> bool:
    """Whether the results `grants` of `show grants` let their user read a table, named with its database."""
    database, _, name = (_quote_name(part) for part in table.partition("."))
    places = ("*.*", f"{database}.*", f"{database}.{name}")
    return any(
        (match := _GRANT.match(grant)) is not None and match["place"].replace("\\", "") in places for grant in grants
    )


def _build_gone_error(
    connection: DebeziumConnection, database: SourceDatabase, table: str, names: Sequence[str]
) -> TableGone:
    return TableGone(
        f"{connection.address}: there is no table {table} that user {connection.user} "
        f"sees{suggest_nearest(table, names)}.",
        fix=(
            f"if it is there, `grant select on {table.replace(chr(92), '')} to {get_account(database)}`; if it was "
            "renamed or dropped, name another one by `source_table`, or take it out of the project"
        ),
    )


def get_account(database: SourceDatabase) -> str:
    """Returns the account with which a connection is logged in, as SQL writes it: `'user'@'host'`."""
    user, _, host = str(database.fetch_one("select current_user()")).rpartition("@")
    return f"'{user}'@'{host}'"


def _check_kind(connection: DebeziumConnection, name: str, kind: str, engine: str) -> None:
    if kind != "BASE TABLE":
        what = "a view" if kind == "VIEW" else f"a {kind.lower()} table"
        raise connection.build_error(
            f"{name} is {what}, of which the log has no rows", "ingest the tables below it instead"
        )
    if (why := _ENGINES.get(engine.upper())) is not None:
        raise connection.build_error(
            f"{name} has the engine {engine}, whose tables {why}, and the log does not have that",
            f"`alter table {name} engine = InnoDB`, or take the table out",
        )


def _check_definition(connection: DebeziumConnection, database: SourceDatabase, schema: str, table: str) -> None:
    """Raises SourceError if the user may not read a table, or if foreign keys change its rows without log events."""
    name = f"{schema}.{table}"
    try:
        definition = str(database.fetch_rows(f"show create table {_quote_name(schema)}.{_quote_name(table)}")[0][1])
    except RightMissing as error:
        fix = f"`grant select on {name} to {get_account(database)}`"
        raise connection.build_error(f"user {connection.user} may not read {name}", fix) from error
    keys = _CASCADE.findall(definition)
    if keys and connection.properties.get(CASCADES) != "ignore":
        raise connection.build_error(
            f"foreign keys change rows of {name}, and the log does not have these changes: {', '.join(keys)}",
            f"make them `on delete restrict on update restrict`, and let the application change these rows; or set "
            f"`{CASCADES}: ignore` in `properties`, if no row that they refer to is ever deleted or gets another key",
        )


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


End = tuple[int, int]
"""The end of the binary log: the number of its last file, and the position in that file."""

_NEWEST_STATUS = (8, 4)
"""The version of MySQL since which `show binary log status` shows the end of the log."""

_SETTINGS: Mapping[str, tuple[str, str]] = {
    "log_bin": ("1", "`log_bin = binlog` in the server's configuration, then restart it"),
    "binlog_format": ("ROW", "`set global binlog_format = 'ROW'`"),
    "binlog_row_image": ("FULL", "`set global binlog_row_image = 'FULL'`"),
}
"""Required value of each server variable, and advice if it has another value."""

_NO_TABLES = (
    r"(SET STATEMENT .+ FOR )?(CREATE|ALTER|DROP)\s+(OR REPLACE\s+)?(TEMPORARY\s+)?(DEFINER\s*=\s*\S+\s+)?"
    r"(SEQUENCE|PACKAGE)\b.*"
)
"""Pattern of DDL statements that define no tables."""

_RIGHTS = ("REPLICATION SLAVE", "REPLICATION CLIENT")
_RIGHTS_OF_SNAPSHOTS = ("RELOAD",)
_OTHER_NAMES = {
    "REPLICATION CLIENT": ("BINLOG MONITOR",),
    "REPLICATION SLAVE": ("REPLICATION REPLICA",),
    "RELOAD": ("FLUSH_TABLES",),
}
"""For a right, other rights that are sufficient instead, in MariaDB or newer versions of MySQL."""
_MARIADB_TYPES = """
select concat(table_schema, '.', table_name), column_name, data_type from information_schema.columns
where data_type in ('uuid', 'inet4', 'inet6')
"""
_KEY = """
select column_name from information_schema.key_column_usage
where constraint_name = 'PRIMARY' and table_schema = ? and table_name = ? order by ordinal_position
"""
_MAKE_TEXT = "make them binary(16) or char columns, or leave the table out; then `arctic ingest --resync TABLE`"

_CATALOG = """
select t.table_schema, t.table_name, k.column_name from information_schema.tables t
left join information_schema.key_column_usage k
  on k.table_schema = t.table_schema and k.table_name = t.table_name and k.constraint_name = 'PRIMARY'
where t.table_type = 'BASE TABLE' and t.table_schema = database()
order by t.table_schema, t.table_name, k.ordinal_position
"""
_ESTIMATES = """
select concat(table_schema, '.', table_name), table_rows from information_schema.tables where table_rows is not null
"""
_FILTER = "internal.schema.history.internal.ddl.filter"
_UNREAD = (
    f"if it defines no table that is read, skip it by the Debezium property `{_FILTER}`; else make the table without "
    "what is new in it, then `arctic ingest --resync`"
)


_IDENTITY = "show global variables where variable_name in ('server_uuid', 'server_id', 'aurora_version')"

MYSQL_CODE = (*MARIADB_SUPPORT, *EXACT_VALUES, *NO_MYSQL_DEFAULTS, *READABLE_STATEMENTS)
"""All code for classes of Debezium that read MySQL and MariaDB."""


class MySQL:
    """The SourceServer for MySQL and MariaDB."""

    order = BinlogOrder()
    gives_signs_of_life = True

    def __init__(self, connection: DebeziumConnection, thresholds: DebeziumThresholds) -> None:
        self._connection = connection
        self._database = SourceDatabase(connection, thresholds.heap_bytes)
        insert_code(MYSQL_CODE)

    def check_server(self, position: Position | None) -> None:
        is_snapshot = position is None or position.is_snapshot
        self._check_settings()
        self._check_rights((*_RIGHTS, *_RIGHTS_OF_SNAPSHOTS) if is_snapshot else _RIGHTS)
        if position is None or position.is_snapshot:
            check_tables(self._connection, self._database)
        else:
            if position.history is None:
                raise self._build_lost_error("the definitions of tables as of the last commit are not kept")
            self._check_log(position)

    def prepare_server(self, position: Position) -> None:
        self.check_server(position)

    def publish_tables(self, tables: Collection[str]) -> None:
        """Does nothing: the binary log has the changes of all tables."""

    def withdraw_tables(self) -> None:
        """Does nothing: the binary log has the changes of all tables."""

    def commit_marker(self) -> None:
        """Does nothing: each event has its own position in the log, so no marker is needed to order it."""

    def get_stream_start(self, first: Source) -> Source:
        return select_transaction_begin(first)

    def identify_log(self) -> Mapping[str, str] | None:
        """Returns the name of the server, `server_uuid`, or the number by which MariaDB tells replicas from each other.

        None for Aurora, whose servers have names of their own and one log.
        """
        rows = self._database.fetch_rows(_IDENTITY)
        found = {str(name): str(value) for name, value in rows}
        if "aurora_version" in found:
            return None
        name = "server_uuid" if "server_uuid" in found else "server_id"
        return {name: found[name]}

    def get_log_end(self) -> End:
        file, place, *_ = self._database.fetch_rows(self._get_status_statement())[0]
        return parse_file_number(str(file)), int(place or 0)

    def push_log_end(self) -> None:
        """Does nothing: the server reports the end of its log to a waiting reader several times a second."""

    def has_reached(self, position: Position, end: End) -> bool:
        if position.is_snapshot or position.reached is None:
            return False
        file, place = position.reached
        return (parse_file_number(file), int(place)) >= end

    def list_catalog(self) -> list[CatalogTable]:
        return build_catalog_tables(self._database.fetch_rows(_CATALOG))

    def find_unsent(self, tables: Collection[str], streamed: Collection[str]) -> Mapping[str, SourceError | None]:
        return find_missing(self._connection, self._database, tables, streamed)

    def estimate_rows(self) -> Mapping[str, int]:
        return {str(table): int(rows or 0) for table, rows in self._database.fetch_rows(_ESTIMATES)}

    def find_unreadable(self, tables: Collection[str]) -> Mapping[str, str]:
        """Maps tables with columns of types that only MariaDB has to the error, as Debezium's parser stops at these."""
        columns: dict[str, list[str]] = {}
        for table, column, kind in self._database.fetch_rows(_MARIADB_TYPES):
            if str(table) in tables:
                columns.setdefault(str(table), []).append(f"{table}.{column} ({kind})")
        return {
            table: str(
                self._connection.build_error(
                    f"columns of types that only MariaDB has can't be read: {', '.join(own)}", _MAKE_TEXT
                )
            )
            for table, own in columns.items()
        }

    def get_primary_key(self, schema: str, table: str) -> tuple[str, ...]:
        return tuple(str(row[0]) for row in self._database.fetch_rows(_KEY, (schema, table)))

    def list_columns(
        self, schema: str, table: str, columns: Sequence[SourceColumn], history: str | None
    ) -> NumberedColumns:
        known = find_definition(list_definitions(history or "", schema, table), [column.name for column in columns])
        return NumberedColumns(tuple(self._number_column(column, known.get(column.name)) for column in columns))

    def _number_column(self, column: SourceColumn, known: Defined | None) -> SourceColumn:
        if known is None:
            return replace(column, older_rows=UNKNOWN_IN_OLDER_ROWS)
        older = known.default
        if isinstance(older, ConstantDefault):
            older = compute_default(self._database.fetch_one, older, known.type, column)
        return replace(column, number=known.number, older_rows=older)

    def explain_failure(self, error: Any, reason: str) -> SourceError:
        if error is None:
            return self._database.build_lost_error(reason)
        unread = [cause for cause in list_causes(error) if hasattr(cause, "getErrors")]
        if unread:
            what = describe_parser_error(unread[0])
            return self._connection.build_error(
                "Debezium can't read a statement of the server's log", _UNREAD, actual=what
            )
        return self._database.to_source_error(error)

    def build_properties(self) -> Mapping[str, str]:
        """Returns Debezium's properties of DDL statements to skip, and of the queries of a snapshot.

        Besides the default patterns, statements are skipped that Debezium's parser for MySQL does not know.
        """
        known = load_java_class("io.debezium.relational.history.SchemaHistory").DDL_FILTER.defaultValueAsString()
        selects = build_snapshot_queries(self._database.fetch_rows(MYSQL_FLOATS), self._connection)
        return {_FILTER: f"{known},{_NO_TABLES}", **selects}

    def close_connection(self) -> None:
        self._database.close_connection()

    def _get_status_statement(self) -> str:
        """Returns the SQL statement that shows the end of the binary log in the server's version."""
        version = str(self._database.fetch_one("select version()"))
        if "MariaDB" not in version and tuple(map(int, version.split(".")[:2])) >= _NEWEST_STATUS:
            return "show binary log status"
        return "show master status"

    def _check_settings(self) -> None:
        names = ", ".join(f"@@global.{name}" for name in _SETTINGS)
        setting_values = self._database.fetch_rows(f"select {names}")[0]
        for (name, (expected, advice)), value in zip(_SETTINGS.items(), setting_values, strict=True):
            if str(value).upper() != expected:
                raise self._connection.build_error(f"the server's {name} is {value}, expected {expected}", advice)

    def _check_rights(self, expected: Sequence[str]) -> None:
        granted = " ".join(str(row[0]).upper() for row in self._database.fetch_rows("show grants"))
        missing = [right for right in expected if not _is_granted(right, granted)]
        if missing:
            rights = ", ".join(missing)
            raise self._connection.build_error(
                f"user {self._connection.user} lacks the right {rights}",
                f"`grant {rights} on *.* to {get_account(self._database)}`",
            )

    def _check_log(self, position: Position) -> None:
        """Raises SourceError if the server no longer has the log from `position` on, or has another log."""
        log, now = position.log, self.identify_log()
        if log is not None and now is not None and log != now:
            raise self._connection.build_error(
                "another server answers, whose binary log has other files and places than the one that was read; "
                "changes would be left out",
                RESYNC,
                _format_log(log),
                _format_log(now),
            )
        if "gtids" in position.offset:
            known = (str(position.offset["gtids"]),)
            if self._database.fetch_one("select gtid_subset(@@global.gtid_purged, ?)", known) == "0":
                raise self._build_lost_error(f"the server purged transactions after {known[0]} from its binary log")
            return
        sizes = {str(row[0]): int(row[1] or 0) for row in self._database.fetch_rows("show binary logs")}
        file, place = str(position.offset["file"]), int(position.offset["pos"])
        if file not in sizes:
            raise self._build_lost_error(
                f"the server purged its binary log {file}; the oldest that it has is {min(sizes)}"
            )
        if place > sizes[file]:
            raise self._build_lost_error(
                f"the binary log {file} ends at {sizes[file]}, before the last commit at {place}: this is another "
                "server, or its log was reset"
            )

    def _build_lost_error(self, what: str) -> SourceError:
        return self._connection.build_error(what, RESYNC)


def _is_granted(right: str, granted: str) -> bool:
    names = (right, *_OTHER_NAMES.get(right, ()), "ALL PRIVILEGES")
    return any(re.search(rf"\b{name}\b", granted) for name in names)


def _format_log(log: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in log.items())
