"""Manages dbt's connections, one per thread; each takes a Spark session of its own at its first use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import TYPE_CHECKING

from dbt.adapters.contracts.connection import (
    AdapterRequiredConfig,
    AdapterResponse,
    Connection,
    ConnectionState,
)
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.connections import SparkConnectionManager
from dbt.flags import get_flags
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from arctic_runtime.errors import ArcticError
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.session_pool import get_pool
from arctic_runtime.spark.engine.spark_loss import is_of_spark, to_spark_ended
from arctic_runtime.spark.engine.thread_imports import preload_modules
from arctic_runtime.spark.engine.warm_server import begin_warm_server
from dbt.adapters.arctic.connections.handle import Cursor, SessionHandle
from dbt.adapters.arctic.connections.thread_reader import get_thread_reader
from dbt.adapters.arctic.publication.build import BRANCH_VARIABLE, open_branch

if TYPE_CHECKING:
    import agate

logger = AdapterLogger("Arctic")
_USES_SPARK = ("build", "run", "seed", "snapshot", "test")
"""Commands of dbt that mostly need Spark, which starts while dbt parses the project."""
_USES_NO_THREADS = ("clean", "debug", "deps", "init", "list", "ls", "parse")
ROOMS = ("dbt.adapters.arctic.materialize", "dbt.adapters.arctic.publication", "dbt.adapters.arctic.relations")
"""Packages of the adapter whose functions import modules of the runtime, in any thread of dbt."""


class ArcticConnectionManager(SparkConnectionManager):
    """Opens connections without starting Spark; the first statement takes a session."""

    TYPE = "arctic"

    def __init__(self, profile: AdapterRequiredConfig, mp_context: SpawnContext) -> None:
        super().__init__(profile, mp_context)
        self._profile: Profile = profile.credentials.to_profile(_project_folder(profile))  # type: ignore[attr-defined]
        command = getattr(get_flags(), "WHICH", None)
        if branch := os.environ.get(BRANCH_VARIABLE):
            self._profile = open_branch(self._profile, Path(branch), command)
        self._is_read_only = False
        if command in _USES_SPARK:
            PROCESS.report = logger.info
            begin_warm_server(self._profile)
        if command not in _USES_NO_THREADS and profile.threads > 1:
            preload_modules(self._profile, ROOMS)

    @property
    def arctic_profile(self) -> Profile:
        """The profile that this thread's connections use: that of `use_reader`, or the target's."""
        reader = get_thread_reader()
        return self._profile if reader is None else reader.profile

    @arctic_profile.setter
    def arctic_profile(self, profile: Profile) -> None:
        self._profile = profile

    def open(self, connection: Connection) -> Connection:  # type: ignore[override]
        if connection.state != ConnectionState.OPEN:
            connection.handle = SessionHandle(get_pool(self.arctic_profile), self._get_comment, self._is_read_only)
            connection.state = ConnectionState.OPEN
        return connection

    @contextmanager
    def refuse_changes(self) -> Iterator[None]:
        """Makes connections refuse statements that change more than their session, until the context ends."""
        self.cleanup_all()
        self._is_read_only = True
        try:
            yield
        finally:
            self._is_read_only = False
            self.cleanup_all()

    def change_profile(self, profile: Profile) -> None:
        """Makes connections, also those that are open, use another profile."""
        self.arctic_profile = profile
        with self.lock:
            handles = [
                connection.handle
                for connection in self.thread_connections.values()
                if connection.state == ConnectionState.OPEN
            ]
        for handle in handles:
            handle.change_pool(get_pool(profile))

    def _get_comment(self) -> str | None:
        """Returns the comment that dbt currently adds to this thread's queries; None if there is none."""
        comment = None if self.query_header is None else self.query_header.comment.query_comment
        return comment.strip() if comment else None

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Converts every error to one of dbt's errors, with Spark's message and without Java's stack trace."""
        try:
            yield
        except DbtRuntimeError:
            raise
        except ArcticError as error:
            raise DbtRuntimeError(str(error)) from error
        except Exception as error:
            logger.debug(f"Error while running:\n{sql}\n{error}")
            if (ended := to_spark_ended(error)) is not None:
                raise DbtRuntimeError(str(ended)) from error
            if is_of_spark(error):
                raise DbtDatabaseError(get_message(error)) from error
            raise DbtRuntimeError(str(error) or type(error).__name__) from error

    def execute(
        self, sql: str, auto_begin: bool = False, fetch: bool = False, limit: int | None = None
    ) -> tuple[AdapterResponse, agate.Table]:
        from dbt_common.clients.agate_helper import empty_table

        sql = self._add_query_comment(sql)
        _, cursor = self.add_query(sql, auto_begin)
        with self.exception_handler(sql):
            if fetch:
                return self.get_response(cursor), self.get_result_from_cursor(cursor, limit)
            cursor.finish_query()
            return self.get_response(cursor), empty_table()

    @classmethod
    def get_response(cls, cursor: Cursor) -> AdapterResponse:  # noqa: ARG003
        return AdapterResponse(_message="OK")


def _project_folder(config: object) -> Path:
    """Returns the project's folder, to which a relative warehouse path is relative, even if dbt has not read it yet."""
    folder = getattr(config, "project_root", None) or getattr(get_flags(), "PROJECT_DIR", None)
    return Path(folder) if folder else Path.cwd()
