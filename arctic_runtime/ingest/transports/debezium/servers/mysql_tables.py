"""Checks, by the catalog of MySQL or MariaDB, that all changes of the tables to read are in the binary log."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from arctic_runtime.errors import SourceError, suggest_nearest
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.source_database import RightMissing, SourceDatabase
from arctic_runtime.ingest.transports.transport import TableGone

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
