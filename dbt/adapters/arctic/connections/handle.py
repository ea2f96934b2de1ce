"""The Spark session of a dbt connection: runs statements and fetches rows."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.spark.engine.jobs import describe_jobs
from arctic_runtime.spark.engine.session_pool import SessionPool, drop_temporary_views
from dbt.adapters.arctic.connections import statements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

logger = AdapterLogger("Arctic")
_BIGINT = range(-(2**63), 2**63)

# PySpark logs every failed query as JSON with its whole stack trace; dbt shows the message.
logging.getLogger("SQLQueryContextLogger").disabled = True
logging.getLogger("DataFrameQueryContextLogger").disabled = True


class SessionHandle:
    """Handle of a dbt connection; takes a Spark session from the pool at its first statement or use of `spark`."""

    def __init__(
        self, pool: SessionPool, comment: Callable[[], str | None] = lambda: None, is_read_only: bool = False
    ) -> None:
        """Creates a handle without a session; with `is_read_only`, statements that may change a catalog are refused.

        `comment` returns dbt's comment about the current work, which Spark's UI shows for the jobs.
        """
        self._pool = pool
        self._is_read_only = is_read_only
        self._comment = comment
        self._described: str | None = None
        self._session: SparkSession | None = None
        self._cancelled = False
        self._has_settings = False
        self._has_views = False

    @property
    def spark(self) -> SparkSession:
        if self._cancelled:
            raise DbtRuntimeError("The run was cancelled")
        if self._session is None:
            self._session = self._pool.take_session()
        if (comment := self._comment() or "") != self._described:
            describe_jobs(self._session, comment)
            self._described = comment
        return self._session

    def change_pool(self, pool: SessionPool) -> None:
        """Gives its session back, and takes later ones from another pool."""
        self.close()
        self._pool = pool

    def cursor(self) -> Cursor:
        return Cursor(self)

    def cancel(self) -> None:
        """Interrupts all running work of the session, and refuses all later statements."""
        self._cancelled = True
        if self._session is not None:
            self._session.interruptAll()

    def rollback(self) -> None:
        """Does nothing: every statement commits itself."""

    def close(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        if self._cancelled or self._has_settings or not self._drop_views(session):
            self._pool.discard_session(session)
        else:
            self._pool.give_back(session)

    def _drop_views(self, session: SparkSession) -> bool:
        """Drops the session's temporary views; returns False if that fails.

        It fails if Spark has ended. An earlier error has reported this already, and must not be hidden by a second one.
        """
        try:
            if self._has_views:
                drop_temporary_views(session)
        except Exception as error:
            logger.debug(f"Temporary views could not be dropped: {error}")
            return False
        return True

    def note_statement(self, statement: str) -> None:
        """Records whether a statement leaves settings or temporary views in the session.

        Raises DbtRuntimeError for a statement that changes more than the session, if the handle is read-only.
        """
        if self._is_read_only and not statements.is_reading(statement):
            text = statements.drop_first_comments(statement)
            raise DbtRuntimeError(f"this command writes nothing, and the project runs a statement: {text[:200]}")
        self._has_settings |= statements.is_session_change(statement)
        self._has_views |= statements.is_temporary_view(statement)

    def mark_temporary_view(self) -> None:
        self._has_views = True

    def mark_foreign_code(self) -> None:
        """Records that a user's code has used the session and may have changed it, so that `close` discards it."""
        self._has_settings = True


class Cursor:
    """Runs SQL texts, each with one or more statements, and holds the result of the last statement."""

    def __init__(self, handle: SessionHandle) -> None:
        self._handle = handle
        self._result: DataFrame | None = None
        self._is_query = False

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Runs the statements of `sql`, one after the other, with `bindings` as values of their `?` markers.

        If the last statement is a query, it is only planned; a fetch or `finish_query` computes it.
        """
        self._result, self._is_query = None, False
        for statement in statements.split_statements(sql):
            self.finish_query()
            self._handle.note_statement(statement)
            self._is_query = statements.is_query(statement)
            arguments = [_convert_argument(value) for value in bindings] if bindings else None
            self._result = self._handle.spark.sql(statement, args=arguments)

    def finish_query(self) -> None:
        """Computes a query without fetching its rows, so that errors in the query are raised."""
        if self._result is not None and self._is_query:
            self._result.write.format("noop").mode("overwrite").save()

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, bool]]:
        if self._result is None:
            return []
        from arctic_runtime.spark.tables.rows.frames import type_of

        return [
            (field.name, type_of(field.dataType), None, None, None, None, field.nullable)
            for field in self._result.schema.fields
        ]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._fetch_rows(self._result)

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        return self._fetch_rows(None if self._result is None else self._result.limit(size))

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self.fetchmany(1)), None)

    def close(self) -> None:
        self._result = None

    def _fetch_rows(self, result: DataFrame | None) -> list[tuple[Any, ...]]:
        if result is None:
            return []
        types = [field.dataType for field in result.schema.fields]
        keeps_zone = _has_timestamp(types) and not _is_utc(self._handle.spark)
        return [
            tuple(_convert_value(v, t, keeps_zone) for v, t in zip(row, types, strict=True)) for row in result.collect()
        ]


def _convert_argument(value: Any) -> Any:
    """Converts a bound value so that Spark takes it without loss: integers beyond bigint become decimals."""
    is_wide = isinstance(value, int) and value not in _BIGINT
    return Decimal(value) if is_wide else value


def _convert_value(value: Any, data_type: DataType, keeps_zone: bool) -> Any:
    """Converts a fetched value to plain Python.

    PySpark returns timestamps in this machine's time zone; they are converted to UTC. If the session's time zone is
    UTC, the results have no zone, as in other adapters. Otherwise (`keeps_zone`) they have one, so that they stay
    exact.
    """
    from pyspark.sql import types

    if value is None:
        return None
    match data_type:
        case types.TimestampType():
            utc = value.astimezone(dt.timezone.utc)
            return utc if keeps_zone else utc.replace(tzinfo=None)
        case types.ArrayType():
            return [_convert_value(part, data_type.elementType, keeps_zone) for part in value]
        case types.MapType():
            return {str(key): _convert_value(part, data_type.valueType, keeps_zone) for key, part in value.items()}
        case types.StructType():
            parts = zip(data_type.fields, value, strict=True)
            return {field.name: _convert_value(part, field.dataType, keeps_zone) for field, part in parts}
        case types.BinaryType():
            return bytes(value).hex()
        case _:
            return value


def _has_timestamp(data_types: list[DataType]) -> bool:
    return any("timestamp" in data_type.simpleString().replace("timestamp_ntz", "") for data_type in data_types)


def _is_utc(session: SparkSession) -> bool:
    return session.conf.get("spark.sql.session.timeZone") in ("UTC", "Etc/UTC", "Z", "GMT")
