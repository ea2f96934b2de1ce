"""For Airflow: commands of a dbt-arctic project as tasks, and a sensor that waits until tables are fresh.

Copy both files of this folder into Airflow's `plugins` folder; dbt-arctic itself is not needed beside Airflow.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent
from arctic_freshness import ServiceError, describe_late_tables, describe_problem, parse_time, select_tables

REQUEST_SECONDS = 30
_TAIL_LINES = 20
_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
"""Ends a command when the task's process is gone, on Linux, so that no run goes on beside a retry."""


class TaskFailure(SystemExit):
    """Ends a task as failed, to be tried again; Airflow logs no stack trace for an exit, and callbacks get its text."""

    def __init__(self, text: str) -> None:
        super().__init__(1)
        self.text = text

    def __str__(self) -> str:
        return self.text


class ArcticCommand(BaseOperator):
    """Runs `dbt` or `arctic` of the project's own environment, such as `["dbt", "build"]`, with its lines in the log.

    `bin_folder` has the two programs, and `project_folder` the project. The command ends with its task, however that
    ends. If it fails, the task's last lines are the errors of the models and tests that failed.
    """

    template_fields: Sequence[str] = ("command", "environment")

    def __init__(
        self,
        *,
        command: Sequence[str],
        project_folder: str,
        bin_folder: str,
        environment: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.command = list(command)
        self.project_folder = project_folder
        self.bin_folder = bin_folder
        self.environment = dict(environment or {})
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Mapping[str, Any]) -> None:  # noqa: ARG002
        began = datetime.now(timezone.utc)
        lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._process = self._start_process()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            lines.append(line.rstrip())
            self.log.info(lines[-1])
        if code := self._process.wait():
            target = Path(self.project_folder, self._environment.get("DBT_TARGET_PATH", "target"))
            text = read_errors(target, began) or find_error("\n".join(lines))
            fail_task(self.log, f"{' '.join(self.command)} ended with {code}.\n{text}")

    def on_kill(self) -> None:
        """Asks the command to end: dbt cancels its queries, and Spark ends with it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self._process.kill()

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "DBT_USE_COLORS": "false", **self.environment}

    def _start_process(self) -> subprocess.Popen[str]:
        program, *arguments = self.command
        prefix = _WITH_PARENT if shutil.which(_WITH_PARENT[0]) else ()
        return subprocess.Popen(
            [*prefix, str(Path(self.bin_folder, program)), *arguments],
            cwd=self.project_folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )


def read_errors(target: Path, began: datetime | None = None) -> str:
    """Returns the errors in dbt's `run_results.json`; empty if there are none, or if it is older than `began`."""
    try:
        results = json.loads((target / "run_results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if began is not None and parse_time(results["metadata"]["generated_at"]) < began:
        return ""
    failed = [result for result in results["results"] if result["status"] in ("error", "fail", "runtime error")]
    return "\n".join(f"{result['unique_id']}: {(result['message'] or '').strip()}" for result in failed)


def find_error(text: str) -> str:
    """Returns the error with which dbt ended before it ran a model, from its lines; all of them if there is none."""
    error = re.search(r"Encountered an error:\n(.+?)(?=^\S*\d\d:\d\d:\d\d|\Z)", text, re.DOTALL | re.MULTILINE)
    return error[1].strip() if error else text


def _read_end(file: Path) -> str:
    """Returns the last lines of a log; a text that says so if there is none."""
    try:
        return "\n".join(file.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])
    except OSError:
        return "dbt ended before it ran a model; its lines above say why."


def fail_task(log: Any, text: str) -> None:
    """Logs the lines of an error and fails the task."""
    for line in text.splitlines():
        log.error(line)
    raise TaskFailure(text)


def show_cosmos_errors(folder: str, **_: Any) -> None:
    """Fails a task of Cosmos with the errors of its model and tests; the `callback` of its operators.

    `folder` is the copy of the project in which dbt ran, whose results are those of this run.
    """
    log = logging.getLogger("airflow.task")
    target = Path(folder, "target")
    if not (target / "run_results.json").exists():
        fail_task(log, find_error(_read_end(Path(folder, "logs", "dbt.log"))))
    if errors := read_errors(target):
        fail_task(log, errors)


class FreshTables(BaseSensorOperator):
    """Waits in the triggerer until tables have all changes of their sources up to a time.

    `tables` are names as `arctic serve` shows them, with or without catalog and schema; without any, all tables.
    `as_of` is a time in ISO 8601, such as `{{ data_interval_end }}`; if it is empty, the tables have to be as fresh as
    their `target_lag` allows. The connection has the address of the service, and its token as the password.
    """

    template_fields: Sequence[str] = ("tables", "as_of")

    def __init__(
        self,
        *,
        tables: Sequence[str] = (),
        as_of: str = "",
        arctic_conn_id: str = "arctic",
        poke_interval: float = 10,
        timeout: float = 3600,
        **arguments: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **arguments)
        self.tables = list(tables)
        self.as_of = as_of
        self.arctic_conn_id = arctic_conn_id

    def execute(self, context: Mapping[str, Any]) -> None:  # noqa: ARG002
        seconds = timedelta(seconds=self.timeout)
        self.defer(
            trigger=FreshTablesTrigger(
                tables=self.tables,
                as_of=self.as_of,
                arctic_conn_id=self.arctic_conn_id,
                poll_seconds=float(self.poke_interval),
                ends_at=(datetime.now(timezone.utc) + seconds).isoformat(),
            ),
            method_name="finish",
            timeout=seconds + timedelta(seconds=2 * REQUEST_SECONDS),
        )

    def finish(self, context: Mapping[str, Any], event: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Ends the task as the trigger says."""
        if event["error"]:
            fail_task(self.log, event["error"])
        self.log.info("Fresh: %s", ", ".join(event["tables"]))


class FreshTablesTrigger(BaseTrigger):
    """Asks the service until the tables are fresh, or until `ends_at`; only their names and times are stored."""

    def __init__(
        self, tables: Sequence[str], as_of: str, arctic_conn_id: str, poll_seconds: float, ends_at: str
    ) -> None:
        super().__init__()
        self.tables = list(tables)
        self.as_of = as_of
        self.arctic_conn_id = arctic_conn_id
        self.poll_seconds = poll_seconds
        self.ends_at = ends_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        fields = ("tables", "as_of", "arctic_conn_id", "poll_seconds", "ends_at")
        return "arctic_airflow.FreshTablesTrigger", {field: getattr(self, field) for field in fields}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            tables = await self._wait_for_tables()
        except ServiceError as error:
            yield TriggerEvent({"tables": [], "error": str(error)})
        else:
            yield TriggerEvent({"tables": tables, "error": ""})

    async def _wait_for_tables(self) -> list[str]:
        """Returns the fresh tables. Raises ServiceError at the end of the time, or if waiting can't help."""
        as_of, ends_at = (parse_time(at) if at else None for at in (self.as_of, self.ends_at))
        assert ends_at is not None
        shown = ""
        async with await self._open_client() as client:
            while True:
                tables, late = await self._ask(client, as_of)
                if not late:
                    return tables
                if datetime.now(timezone.utc) >= ends_at:
                    raise ServiceError(f"Tables are not fresh in time.\n{late}")
                if late != shown:
                    self.log.info("Waits.\n%s", late)
                    shown = late
                await asyncio.sleep(self.poll_seconds)

    async def _open_client(self) -> httpx.AsyncClient:
        connection = await BaseHook.aget_connection(self.arctic_conn_id)
        kind = connection.schema or ("https" if connection.conn_type == "https" else "http")
        address = connection.host if "://" in (connection.host or "") else f"{kind}://{connection.host}"
        headers = {"Authorization": f"Bearer {connection.password}"} if connection.password else {}
        port = f":{connection.port}" if connection.port else ""
        # In a thread, since it reads certificates, and other triggers must not wait for that.
        return await asyncio.to_thread(
            httpx.AsyncClient, base_url=f"{address}{port}", headers=headers, timeout=REQUEST_SECONDS
        )

    async def _ask(self, client: httpx.AsyncClient, as_of: datetime | None) -> tuple[list[str], str]:
        """Returns the tables, and a text about those that are late or about a service that can't answer now.

        Raises ServiceError if the service refuses to answer, or does not know a table.
        """
        try:
            response = await client.get("/api/tables")
        except httpx.HTTPError as error:
            return [], f"The service at {client.base_url} does not answer: {error or type(error).__name__}\n{_SERVE}"
        if response.status_code != httpx.codes.OK:
            text = describe_problem(response.status_code, _read_problem(response))
            if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
                return [], text
            if response.status_code == httpx.codes.UNAUTHORIZED:
                text += f"\n  in Airflow: the password of the connection `{self.arctic_conn_id}` is the token"
            raise ServiceError(text)
        tables = select_tables(response.json(), self.tables)
        return [table["table"] for table in tables], "\n".join(describe_late_tables(tables, as_of))


_SERVE = "  what to do: start `arctic serve`, and see whether the connection has its address"


def _read_problem(response: httpx.Response) -> dict[str, Any]:
    with suppress(ValueError):
        problem = response.json()
        if isinstance(problem, dict):
            return problem
    return {}
