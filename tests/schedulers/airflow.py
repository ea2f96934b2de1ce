"""An Airflow on this machine: its processes, the DAGs of `deploy/airflow`, and what it tells people over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.schedulers.processes import find_children, kill, list_children, wait_for
from tests.schedulers.project import ROOT, Project

FILES = ROOT / "deploy" / "airflow"
OPERATORS, COSMOS, FRESHNESS = "arctic_operators", "arctic_cosmos", "arctic_freshness"
TRACE = re.compile("Traceback|error_detail")
"""Signs of a stack trace, in text or in the form in which Airflow stores one."""

PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
SECONDS_TO_START = 180
WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")
"""Ends a process with that of the tests, even if this is killed."""

ENDED = ("success", "failed")


def find_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


class Airflow:
    """Its processes, with a database in SQLite, and the user's part of its HTTP."""

    def __init__(self, bin_folder: Path, home: Path, project: Project) -> None:
        self._bin, self._home, self._project = bin_folder, home, project
        self._port = find_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._token = ""
        self._copy_files()
        self._run("db", "migrate")
        self._run("pools", "set", "arctic", "1", "Spark")

    @property
    def environment(self) -> dict[str, str]:
        address = f"http://127.0.0.1:{self._port}"
        settings = {
            "API__PORT": str(self._port),
            "API__HOST": "127.0.0.1",
            "API__WORKERS": "1",
            "API__BASE_URL": address,
            "API_AUTH__JWT_SECRET": "a-secret-of-thirty-two-letters-and-more-and-more-and-more-of-them",
            "CORE__DAGS_FOLDER": str(self._home / "dags"),
            "CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__FERNET_KEY": "",
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__PARALLELISM": "2",
            "CORE__PLUGINS_FOLDER": str(self._home / "plugins"),
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
            "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
            "COSMOS__CACHE_DIR": str(self._home / "cosmos"),
            "COSMOS__ENABLE_TELEMETRY": "False",
        }
        variables = {f"AIRFLOW__{name}": value for name, value in settings.items()}
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {**inherited, **variables, "AIRFLOW_HOME": str(self._home), "DO_NOT_TRACK": "1"}

    def start(self) -> None:
        for part in PARTS:
            with (self._home / f"{part}.log").open("wb") as log:
                self._processes[part] = subprocess.Popen(
                    [*WITH_PARENT, self._bin / "airflow", part],
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        wait_for(self._is_answering, SECONDS_TO_START, self.read_logs)

    def end(self) -> None:
        """Ends all processes, and those below them that do not end with them."""
        below = [child for process in self._processes.values() for child in list_children(process.pid)]
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
        for child in below:
            kill(child)

    def read_logs(self) -> str:
        return "\n".join(f"{part}:\n{(self._home / f'{part}.log').read_text()[-3000:]}" for part in PARTS)

    def connect(self, address: str, port: int, token: str) -> None:
        """Writes the connection to the service anew."""
        body = {"connection_id": "arctic", "conn_type": "http", "host": address, "port": port, "password": token}
        with suppress(urllib.error.HTTPError):
            self.ask("connections/arctic", method="DELETE")
        self.ask("connections", body)

    def trigger(self, dag: str) -> str:
        """Starts a run of a DAG once Airflow knows it, and returns the run's id."""
        wait_for(lambda: self._unpause(dag), SECONDS_TO_START, self.read_logs)
        run: str = self.ask(f"dags/{dag}/dagRuns", {"logical_date": None})["dag_run_id"]
        return run

    def read_state(self, dag: str, run: str) -> str:
        state: str = self.ask(f"dags/{dag}/dagRuns/{run}")["state"]
        return state

    def list_tasks(self, dag: str, run: str) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = self.ask(f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return tasks

    def find_task(self, dag: str, run: str, task: str) -> dict[str, Any]:
        return next(entry for entry in self.list_tasks(dag, run) if entry["task_id"] == task)

    def finish(self, dag: str, run: str, seconds: float = 300) -> str:
        """Waits for the end of a run and returns its state."""
        wait_for(lambda: self.read_state(dag, run) in ENDED, seconds, lambda: self.describe(dag, run))
        return self.read_state(dag, run)

    def wait_for_states(self, dag: str, run: str, task: str, *states: str) -> None:
        """Waits until a task is in one of some states."""
        wait_for(lambda: self.find_task(dag, run, task)["state"] in states, 300, lambda: self.describe(dag, run))

    def clear(self, dag: str, run: str) -> None:
        """Lets a run that failed begin anew, as the button of the page does."""
        self.ask(f"dags/{dag}/dagRuns/{run}/clear", {"dry_run": False, "only_failed": False})

    def measure_seconds(self, dag: str, task: str) -> float:
        """The longest time that an attempt of a task took that succeeded."""
        path = f"dags/{dag}/dagRuns/~/taskInstances?state=success&limit=100"
        entries = self.ask(path)["task_instances"]
        return max(entry["duration"] for entry in entries if entry["task_id"] == task)

    def read_log(self, dag: str, run: str, task: str, attempt: int = 1) -> str:
        """The log of an attempt as the page of Airflow has it: level and text of each line, with its stack trace."""
        try:
            content = self.ask(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}")["content"]
        except urllib.error.HTTPError as error:
            return f"no log of {task}: {error}"
        return "\n".join(line if isinstance(line, str) else _describe_line(line) for line in content)

    def describe(self, dag: str, run: str) -> str:
        tasks = self.list_tasks(dag, run)
        logs = [self.read_log(dag, run, task["task_id"], max(1, task["try_number"])) for task in tasks if task["state"]]
        return "\n".join([*(f"{task['task_id']}: {task['state']}" for task in tasks), *logs, self.read_logs()])

    def find_processes(self, dag: str, run: str, task: str) -> list[int]:
        """The processes of a task that runs: that of Airflow and those below it; empty if it does not run."""
        name = f"airflow worker -- {self.find_task(dag, run, task)['id']}"
        workers = find_children(self._processes["scheduler"].pid, name)
        return [process for worker in workers for process in (worker, *list_children(worker))]

    def ask(self, path: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
        """What the user's HTTP answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/api/v2/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None

    def _is_answering(self) -> bool:
        for part, process in self._processes.items():
            assert process.poll() is None, f"{part} has ended\n{self.read_logs()}"
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._port}/auth/token", timeout=10) as text:
            self._token = json.load(text)["access_token"]
            return True
        return False

    def _unpause(self, dag: str) -> bool:
        with suppress(urllib.error.HTTPError):
            self.ask(f"dags/{dag}", {"is_paused": False}, "PATCH")
            return True
        return False

    def _copy_files(self) -> None:
        """Copies what a user copies, with the folders of this project, which ingests nothing, and without pauses."""
        changes = {
            '"/srv/shop"': repr(str(self._project.folder)),
            '"/opt/arctic/bin"': repr(str(self._project.bin)),
            '"/opt/arctic/dbt"': repr(str(self._home / "dbt")),
            "timedelta(minutes=1)": "timedelta(seconds=1)",
            "timedelta(hours=2)": "timedelta(seconds=45)",
            '["arctic", "ingest", "--once"]': '["arctic", "status"]',
            '"@hourly"': "None",
            '"@daily"': "None",
        }
        for file in (*FILES.glob("dags/*.py"), *FILES.glob("plugins/*.py")):
            text = file.read_text()
            for old, new in changes.items():
                text = text.replace(old, new)
            copy = self._home / file.relative_to(FILES)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text)
        wrapper = self._home / "dbt"
        wrapper.write_text((FILES / "dbt").read_text().replace("/opt/arctic/bin", str(self._project.bin)))
        wrapper.chmod(0o755)

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [self._bin / "airflow", *command], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _describe_line(line: dict[str, Any]) -> str:
    shown = {name: value for name, value in line.items() if name in ("level", "event", "error_detail")}
    return json.dumps(shown, ensure_ascii=False)
