"""A Dagster on this machine: runs of the assets of `deploy/dagster` in processes of their own, and its sensor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.schedulers.processes import kill, list_children
from tests.schedulers.project import ROOT, Project

FILES = ROOT / "deploy" / "dagster"
READ = """
import json
import dagster as dg
instance = dg.DagsterInstance.get()
shown = {}
for key in instance.all_asset_keys():
    event = instance.get_latest_materialization_event(key)
    if event is not None:
        metadata = event.asset_materialization.metadata
        shown[key.path[-1]] = {name: value.value for name, value in metadata.items()}
(run,) = instance.get_run_records(limit=1)
entries = [entry.dagster_event for entry in instance.all_logs(run.dagster_run.run_id) if entry.dagster_event]
failures = [event.event_specific_data for event in entries if event.event_type_value == "STEP_FAILURE"]
texts = [data.user_failure_data.description if data.user_failure_data else str(data.error) for data in failures]
print(json.dumps({"assets": shown, "failures": texts}, default=str))
"""
TICK = """
import json, sys
import dagster as dg
import definitions
context = dg.build_sensor_context(cursor=sys.argv[1], definitions=definitions.definitions)
answer = definitions.fresh_tables(context)
if isinstance(answer, dg.SkipReason):
    print(json.dumps({"skipped": answer.skip_message}))
else:
    events = answer.asset_events
    print(json.dumps({
        "events": [event.asset_key.path[-1] for event in events],
        "metadata": {name: value.value for name, value in events[0].metadata.items()},
        "runs": len(answer.run_requests),
        "cursor": answer.cursor,
    }))
"""


@dataclass
class Run:
    """A process that runs all assets, and its output."""

    process: subprocess.Popen[str]
    began: float


@dataclass(frozen=True)
class Done:
    code: int
    text: str


class Dagster:
    """Runs of all assets, with what Dagster keeps of them."""

    def __init__(self, packages: Path, home: Path, project: Project, port: int) -> None:
        self._packages, self._home, self._project = packages, home, project
        self.seconds = 0.0
        """The time that the longest run took."""

        (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        changes = {
            '"/srv/shop"': repr(str(project.folder)),
            '"/opt/arctic/bin"': repr(str(project.bin)),
            '"/opt/arctic/dbt"': repr(str(home / "dbt")),
            "http://127.0.0.1:8470": f"http://127.0.0.1:{port}",
        }
        text = (FILES / "definitions.py").read_text()
        for old, new in changes.items():
            text = text.replace(old, new)
        (home / "definitions.py").write_text(text)
        (home / "dbt").write_text((FILES / "dbt").read_text().replace("/opt/arctic/bin", str(project.bin)))
        (home / "dbt").chmod(0o755)

    def start(self) -> Run:
        """Starts a run of all models."""
        command = ["-m", "dagster", "asset", "materialize", "-f", "definitions.py", "--select", "key:ods_orders+"]
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=self._home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return Run(process, time.monotonic())

    def finish(self, run: Run) -> Done:
        """Waits for the end of a run; what was below it has ended then."""
        below = list(list_children(run.process.pid))
        text, _ = run.process.communicate(timeout=300)
        for process in below:
            kill(process)
        self.seconds = max(self.seconds, time.monotonic() - run.began)
        return Done(run.process.returncode, text)

    def read_materializations(self) -> dict[str, dict[str, Any]]:
        """The metadata of the newest materialization of each asset."""
        assets: dict[str, dict[str, Any]] = self._ask(READ)["assets"]
        return assets

    def read_failure(self) -> str:
        """The text of the failure of the newest run, as the page of Dagster shows it."""
        return "\n".join(self._ask(READ)["failures"])

    def tick(self, cursor: str) -> Any:
        """What the sensor answers."""
        return self._ask(TICK, cursor)

    @property
    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(map(str, (self._packages, ROOT)))
        return {**os.environ, "PYTHONPATH": path, "DAGSTER_HOME": str(self._home)}

    def _ask(self, program: str, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=self._home,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])
