"""Checks, by the catalog of MySQL or MariaDB, that all changes of the tables to read are in the binary log."""

from __future__ import annotations

import re
from collections.abc import Mapping

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.source_database import RightMissing, SourceDatabase
from arctic_runtime.suggestions import suggest_nearest

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


def check_tables(connection: DebeziumConnection, database: SourceDatabase) -> None:
    """Raises SourceError, with a fix, if a table to read is missing, can't be read, or changes without log events."""
    tables = {
        (str(schema), str(table)): (str(kind), str(engine))
        for schema, table, kind, engine in database.fetch_rows(_KINDS)
    }
    names = [".".join(table) for table in tables]
    for pattern in connection.tables:
        if not any(re.fullmatch(pattern, name) for name in names):
            raise _build_error(
                connection,
                f"there is no table {pattern} that user {connection.user} sees{suggest_nearest(pattern, names)}",
                f"if it is there, `grant select on {pattern.replace(chr(92), '')} to {get_account(database)}`",
            )
    for (schema, table), (kind, engine) in tables.items():
        if connection.is_read(f"{schema}.{table}"):
            _check_kind(connection, f"{schema}.{table}", kind, engine)
            _check_definition(connection, database, schema, table)


def get_account(database: SourceDatabase) -> str:
    """Returns the account with which a connection is logged in, as SQL writes it: `'user'@'host'`."""
    user, _, host = str(database.fetch_one("select current_user()")).rpartition("@")
    return f"'{user}'@'{host}'"


def _check_kind(connection: DebeziumConnection, name: str, kind: str, engine: str) -> None:
    if kind != "BASE TABLE":
        what = "a view" if kind == "VIEW" else f"a {kind.lower()} table"
        raise _build_error(
            connection, f"{name} is {what}, of which the log has no rows", "ingest the tables below it instead"
        )
    if (why := _ENGINES.get(engine.upper())) is not None:
        raise _build_error(
            connection,
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
        raise _build_error(connection, f"user {connection.user} may not read {name}", fix) from error
    keys = _CASCADE.findall(definition)
    if keys and connection.properties.get(CASCADES) != "ignore":
        raise _build_error(
            connection,
            f"foreign keys change rows of {name}, and the log does not have these changes: {', '.join(keys)}",
            f"make them `on delete restrict on update restrict`, and let the application change these rows; or set "
            f"`{CASCADES}: ignore` in `properties`, if no row that they refer to is ever deleted or gets another key",
        )


def _quote_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _build_error(connection: DebeziumConnection, what: str, fix: str) -> SourceError:
    return SourceError(f"{connection.address}: {what}.", fix=fix)
