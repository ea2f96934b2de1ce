"""Runs single queries in a source database, apart from the stream, by JDBC, and builds the queries of its snapshots.

A snapshot would not read all values exactly by `select *`. PostgreSQL: Debezium reads dates as `java.sql.Date`, which
drops the era and uses the Julian calendar before 1582, so that dates before Christ would become dates after Christ. A
number in place of a date is taken by Debezium as days since 1970. MySQL and MariaDB: the server rounds the text of a
`float` to six digits, and that of a `float(m,d)` or `double(m,d)` to `d` decimals; a computed `double` is shown with
all digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jpype

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.database_kinds import get_database_kind
from arctic_runtime.ingest.transports.debezium.connection import SNAPSHOT_SELECTS, DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import build_java_error, list_causes
from arctic_runtime.ingest.transports.debezium.jvm import load_java_class, start_jvm
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost
from arctic_runtime.ingest.transports.transport import CatalogTable

Row = tuple[str | None, ...]

_PLAIN_BY_CODE: Mapping[int, str] = {
    1044: "user {user} may not use database {database}, which `grant select on {database}.* to '{user}'` lets it",
    1045: "the password of user {user} is wrong, or the user may not log in from here",
    1049: "there is no database {database}",
    1698: "user {user} may not log in without a password, or from here",
    1142: "user {user} lacks a right on a table",
    1227: "user {user} lacks a right",
    1236: "the server no longer has its binary log from the last commit on; `arctic ingest --resync` reads all again",
}
"""Texts for people by MySQL error code."""

_PLAIN: Mapping[str, str] = {
    "08S01": "the server can't be reached",
    "28P01": "the password of user {user} is wrong",
    "28000": "user {user} may not log in",
    "3D000": "there is no database {database}",
    "08001": "the server can't be reached",
    "08003": "the connection was lost",
    "08004": "the server refused the connection",
    "08006": "the connection was lost",
    "53300": "the server has no connection left",
    "57P01": "the server was stopped",
    "57P02": "the server ended unexpectedly",
    "57P03": "the server is starting or stopping",
    "42501": "user {user} lacks a right",
    "55P03": "another transaction holds a lock for too long",
    "57014": "a statement was cancelled, as one that waits too long for other transactions",
    "58P01": "the server no longer has its log from the last commit on; `arctic ingest --resync` reads all again",
}
"""Texts for people by SQLSTATE."""

_LOST = frozenset(("08001", "08003", "08006", "08S01", "57P01", "57P02", "57P03", "53300"))
"""SQLSTATEs of errors after which a server may become available again."""

_REFUSED_LOGINS = frozenset((1045, 1698))
"""MySQL error codes of a refused login."""

_LOST_FIX = (
    "see whether the server runs and can be reached from here; a service goes on by itself when it answers, after the "
    "last commit"
)
_LOGIN_FIX = (
    "give the user's name and password in the settings of the source, and start again; if they are right, let the user "
    "log in at the server"
)

RESYNC = "`arctic ingest --resync` reads the tables again and writes what differs"
"""Advice for a source whose changes since the last commit can't be read."""

_WAIT_FIX = (
    "end the transactions that run for long: `select pid, xact_start, query from pg_stat_activity where xact_start is "
    "not null order by xact_start` shows them; a service tries again by itself"
)

_LATE_START = "Time out while waiting for source task to start"
_LATE = "Debezium did not start in time, mostly since a new replication slot waits for all running transactions to end"
"""Text for an error of Debezium that contains `_LATE_START`; it does not have the reason."""

_FIXES: Mapping[str, str] = {**dict.fromkeys(("28P01", "28000"), _LOGIN_FIX), "55P03": _WAIT_FIX, "57014": _WAIT_FIX}
"""Advice by SQLSTATE."""

_ACCOUNT = re.compile(r"for user '(?P<user>.*)'@'(?P<host>[^']*)'")

_MISSING_RIGHTS = frozenset((1142, 1227))
"""MySQL error codes for a right that the user lacks."""

_LOST_CLASSES = ("java.io.EOFException", "java.net.SocketException", "java.net.SocketTimeoutException")


class RightMissing(SourceError):
    """Raised if the user of a connection lacks a right."""


class SourceDatabase:
    """A JDBC connection to a source database for single queries; not thread-safe.

    It is opened at the first query, and reopened after it was lost.
    """

    def __init__(self, connection: DebeziumConnection, heap_bytes: int, timeout_seconds: float | None = None) -> None:
        start_jvm(heap_bytes)
        self._connection = connection
        self._driver = get_database_kind(connection.connector).driver
        self._timeout_settings = {} if timeout_seconds is None else self._driver.build_timeouts(timeout_seconds)
        self._open: Any = None

    def fetch_rows(self, sql: str, values: Sequence[str] = ()) -> list[Row]:
        """Returns all rows of a query, every value as text; `values` are its parameters.

        If the connection was lost since the last query, it is reopened. A statement that is not a query returns no
        rows. Raises SourceError with a text for people.
        """
        was_open = self._open is not None
        try:
            return self._fetch_rows(sql, values)
        except jpype.JException as error:
            self.close_connection()
            failure = self.to_source_error(error)
        if was_open and isinstance(failure, ConnectionLost):
            return self.fetch_rows(sql, values)
        raise failure

    def fetch_one(self, sql: str, values: Sequence[str] = ()) -> str | None:
        """Returns the first value of the first row of a query; None if there is no row."""
        rows = self.fetch_rows(sql, values)
        return rows[0][0] if rows else None

    def fetch_replication_rows(self, command: str) -> list[Row]:
        """Returns all rows of a command of PostgreSQL's replication protocol, over a connection for it alone.

        Raises SourceError with a text for people.
        """
        settings = {"replication": "database", "preferQueryMode": "simple", "assumeMinServerVersion": "9.4"}
        try:
            opened = self._open_connection(settings)
            try:
                return _read_rows(opened.createStatement(), lambda statement: statement.execute(command))
            finally:
                opened.close()
        except jpype.JException as error:
            raise self.to_source_error(error) from None

    def close_connection(self) -> None:
        if self._open is not None:
            opened, self._open = self._open, None
            try:
                opened.close()
            except jpype.JException:  # the connection was lost before
                return

    def to_source_error(self, error: Any) -> SourceError:
        """Converts a Java exception to a SourceError for people, by the first SQLSTATE in its chain of causes."""
        for cause in list_causes(error):
            state = str(cause.getSQLState() or "") if hasattr(cause, "getSQLState") else ""
            code = int(cause.getErrorCode()) if hasattr(cause, "getErrorCode") else 0
            if code in _PLAIN_BY_CODE:
                kind = RightMissing if code in _MISSING_RIGHTS else SourceError
                advice = describe_denied_login(str(cause.getMessage())) if code in _REFUSED_LOGINS else None
                fix = "; ".join(filter(None, [_LOGIN_FIX, advice])) if code in _REFUSED_LOGINS else None
                return self._build_error(_PLAIN_BY_CODE[code], str(cause.getMessage()), kind, fix)
            if state:
                plain = _PLAIN.get(state, f"the database answered with error {state}")
                kind = ConnectionLost if state in _LOST else SourceError
                return self._build_error(plain, str(cause.getMessage()), kind, _FIXES.get(state))
            if self._connection.connector == "postgresql" and _LATE_START in str(cause):
                return self._build_error(_LATE, _LATE_START, fix=_WAIT_FIX)
            if any(isinstance(cause, load_java_class(name)) for name in _LOST_CLASSES):
                return self._build_error("the connection was lost", str(cause.getMessage() or cause), ConnectionLost)
        return build_java_error(self._connection, error)

    def build_lost_error(self, reason: str) -> SourceError:
        """Builds the error for a connection that was lost without a Java exception; `reason` says why."""
        return self._build_error("the connection was lost", reason, ConnectionLost)

    def _build_error(
        self, plain: str, detail: str, kind: type[SourceError] = SourceError, fix: str | None = None
    ) -> SourceError:
        connection = self._connection
        is_lost = kind is ConnectionLost
        text = plain.format(user=connection.user, database=connection.database)
        message = connection.mask_password(f"{connection.address}: {text}.")
        return kind(message, actual=connection.mask_password(detail.strip()), fix=_LOST_FIX if is_lost else fix)

    def _fetch_rows(self, sql: str, values: Sequence[str]) -> list[Row]:
        if self._open is None:
            self._open = self._open_connection({})
        statement = self._open.prepareStatement(sql)
        for place, value in enumerate(values, 1):
            statement.setString(place, value)
        return _read_rows(statement, lambda statement: statement.execute())

    def _open_connection(self, others: Mapping[str, str]) -> Any:
        """Opens a JDBC connection with the settings of the source and `others`."""
        connection = self._connection
        driver = self._driver
        settings = load_java_class("java.util.Properties")()
        own = {
            **driver.settings,
            **self._timeout_settings,
            **driver.build_tls_settings(connection.properties),
            "user": connection.user,
            "password": connection.password,
            **others,
        }
        for key, value in own.items():
            settings.setProperty(key, value)
        return load_java_class(driver.java_class)().connect(
            driver.url.format(host=connection.host, port=connection.port, database=connection.database), settings
        )


def _read_rows(statement: Any, execute: Callable[[Any], bool]) -> list[Row]:
    """Executes a statement and closes it; returns its rows, every value as text, or none if it is not a query."""
    try:
        if not execute(statement):
            return []
        result = statement.getResultSet()
        width = result.getMetaData().getColumnCount()
        rows: list[Row] = []
        while result.next():
            values_read = [result.getString(column) for column in range(1, width + 1)]
            rows.append(tuple(None if value is None else str(value) for value in values_read))
        return rows
    finally:
        statement.close()


def describe_denied_login(message: str) -> str | None:
    """Returns advice for a login that MySQL or MariaDB refused; None if its message does not name the account.

    Servers look for the account by its host first: an anonymous account of `localhost`, which some installations make,
    wins over one with a name that may come from all hosts.
    """
    account = _ACCOUNT.search(message)
    if account is None:
        return None
    user, host = account["user"], account["host"]
    return (
        f"if the password is right, an anonymous account of the host may take the login: `select host from mysql.user "
        f"where user = ''` shows it, and `drop user ''@'{host}'` removes it; or make an account '{user}'@'{host}'"
    )


def build_catalog_tables(rows: Sequence[Row]) -> list[CatalogTable]:
    """Groups rows of (schema, table, column of the primary key) to one CatalogTable for each table.

    A table without a primary key has a single row, whose column is null.
    """
    keys: dict[tuple[str, str], list[str]] = {}
    for schema, table, column in rows:
        key = keys.setdefault((str(schema), str(table)), [])
        if column is not None:
            key.append(column)
    return [CatalogTable(schema, table, tuple(key)) for (schema, table), key in keys.items()]


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
