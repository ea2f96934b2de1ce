"""What goes wrong on a cluster while tables are built, followed and compacted: all of it ends with exact tables.

A fault is on while a job runs. The job may fail, if the next run of it is exact; expiry has to find all files that are
left behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.shop import ARCTIC, DBT, Shop, open_shop
from tests.cluster.standalone import Cluster, standalone, wait_for

DRIVER = "127.0.0.9"
"""The driver has an address of its own, which is none of a worker."""

EVENTS = {"spark.eventLog.enabled": True, "spark.eventLog.rolling.enabled": False, "spark.eventLog.compress": False}
SPECULATION = {
    "spark.speculation": True,
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": 1.1,
    "spark.speculation.quantile": 0.3,
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.task.duration.threshold": "1500ms",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": True,
    "spark.dynamicAllocation.shuffleTracking.enabled": True,
    "spark.dynamicAllocation.minExecutors": 0,
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
}

SECOND = '"Speculative":true'
"""By this the start of a task is told that Spark repeats since the first attempt is slow."""

NO_ERROR = "no command fails for it"


class Lab:
    """A cluster, a project whose driver is outside of it, and the events that Spark writes."""

    def __init__(self, shop: Shop, cluster: Cluster) -> None:
        self.shop, self.cluster = shop, cluster
        self.events = shop.folder / "events"
        self.events.mkdir()
        with socket.socket() as asked:
            asked.bind(("127.0.0.1", 0))
            self.port = asked.getsockname()[1]
        self.page = f"http://127.0.0.1:{self.port}"

    def use_schema(self, name: str, settings: Mapping[str, Any]) -> None:
        driver = {"spark.driver.bindAddress": DRIVER, "spark.driver.host": DRIVER, "spark.executor.memory": "768m"}
        events = {**EVENTS, "spark.eventLog.dir": f"file://{self.events}"}
        page = {"spark.ui.enabled": True, "spark.ui.port": self.port}
        self.shop.use_target({**driver, **events, **page, **settings}, name, master=self.cluster.url)

    def wait_for_writer(self, table: str, process: subprocess.Popen[str]) -> int:
        """The executor that first has a file of a table open to write it; its driver is that of the process."""
        prefix = f"{self.shop.warehouse}/{self.shop.schema}/{table}"
        while process.poll() is None:
            if (writer := self.cluster.find_writer(prefix)) is not None:
                assert f"@{DRIVER}:" in Path(f"/proc/{writer}/cmdline").read_text()
                return writer
            time.sleep(0.002)
        raise AssertionError(f"no executor was seen to write {table}: {process.communicate()[0]}")

    @contextmanager
    def stop_writer(self, table: str, process: subprocess.Popen[str]) -> Iterator[None]:
        """Stops the executor that first writes a file of a table until the context ends."""
        writer = self.wait_for_writer(table, process)
        os.kill(writer, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(writer, signal.SIGCONT)

    def ask(self, path: str) -> Any:
        """What Spark's page of the command that runs answers."""
        with urllib.request.urlopen(f"{self.page}{path}", timeout=120) as answer:
            return json.load(answer)

    def press_kill(self, job: int) -> None:
        """Sends the form by which Spark's page kills a job, with its token."""
        with urllib.request.urlopen(f"{self.page}/jobs/", timeout=120) as answer:
            shown = answer.read().decode()
        token = re.search(r'name="csrfToken"[^>]*value="([^"]+)"|value="([^"]+)"[^>]*name="csrfToken"', shown)
        assert token is not None, shown
        form = urllib.parse.urlencode({"id": job, "csrfToken": token[1] or token[2]})
        urllib.request.urlopen(f"{self.page}/jobs/job/kill/", data=form.encode(), timeout=120).close()

    def count_events(self, kind: str, text: str) -> int:
        """The events of Spark, of all commands, that are of a kind and have a text."""
        wanted = f'"Event":"SparkListener{kind}"'
        lines = (line for file in self.events.iterdir() for line in file.open(errors="replace"))
        return sum(wanted in line and text in line for line in lines)


def kill_writer(lab: Lab, table: str, process: subprocess.Popen[str]) -> None:
    os.kill(lab.wait_for_writer(table, process), signal.SIGKILL)


def stall_writer(lab: Lab, table: str, process: subprocess.Popen[str]) -> None:
    """Stops an executor until Spark has begun to repeat its task; then both attempts go on."""
    before = lab.count_events("TaskStart", SECOND)
    with lab.stop_writer(table, process):
        wait_for(lambda: lab.count_events("TaskStart", SECOND) > before, "a second attempt")


def kill_job(lab: Lab, table: str, process: subprocess.Popen[str]) -> None:
    """Kills the job that writes by Spark's page, while an executor is stopped so that the job can't end before."""
    with lab.stop_writer(table, process):
        (application,) = lab.ask("/api/v1/applications")
        jobs = lab.ask(f"/api/v1/applications/{application['id']}/jobs?status=running")
        for job in jobs:
            lab.press_kill(job["jobId"])
        assert jobs
        process.wait(120)


def interrupt_command(lab: Lab, table: str, process: subprocess.Popen[str]) -> None:
    """Ctrl-C, while an executor that writes is stopped so that the command can't end before."""
    with lab.stop_writer(table, process):
        process.send_signal(signal.SIGINT)
        assert process.wait(120) != 0


def leave_alone(lab: Lab, table: str, process: subprocess.Popen[str]) -> None:
    """The settings are the fault."""


@dataclass(frozen=True)
class Fault:
    """What is done to the process of a job that writes a table, and the settings of Spark meanwhile."""

    name: str
    disturb: Callable[[Lab, str, subprocess.Popen[str]], None]
    settings: Mapping[str, Any]
    sign: tuple[str, str] | None
    """Kind and text of an event by which it is seen that the fault took place; None if the command fails for it."""

    error: str
    """Text that a command shows if it fails for the fault."""


@dataclass(frozen=True)
class Job:
    """A command, the tables during whose writes it is disturbed, and whether events come before it."""

    command: tuple[str, ...]
    tables: tuple[str, ...]
    has_news: bool = True


FAULTS = (
    Fault("killed", kill_writer, {}, ("ExecutorRemoved", ""), NO_ERROR),
    Fault("slow", stall_writer, SPECULATION, ("TaskStart", SECOND), NO_ERROR),
    Fault("cancelled", kill_job, {}, ("JobEnd", "JobFailed"), "what to do: run again: what was committed stays"),
    Fault("interrupted", interrupt_command, {}, None, "interrupt"),
    Fault("dynamic", leave_alone, DYNAMIC, ("ExecutorRemoved", ""), NO_ERROR),
)
JOBS: Mapping[str, Job] = {
    "first build": Job((DBT, "build"), ("ods_orders", "dwd_orders")),
    "changes": Job((DBT, "run"), ("ods_orders__changes", "dwd_orders")),
    "compaction": Job((ARCTIC, "compact", "dwd_orders", "--mode", "full"), ("dwd_orders",), has_news=False),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("faults")
    with open_shop(folder) as shop, standalone(folder, workers=2) as cluster:
        yield Lab(shop, cluster)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_tables_are_exact_and_nothing_is_left_behind_whatever_happens_to_executors(lab: Lab, fault: Fault) -> None:
    signs: list[bool] = []
    for name, job in JOBS.items():
        if job.has_news:
            lab.shop.land()
        lab.use_schema(fault.name, fault.settings)
        before = lab.count_events(*fault.sign) if fault.sign else 0
        process = lab.shop.begin(*job.command)
        for table in job.tables:
            if process.poll() is None:
                fault.disturb(lab, table, process)
        said = process.communicate()[0]
        assert job.command[0] == DBT or "Traceback" not in said, said
        signs.append(fault.sign is None or lab.count_events(*fault.sign) > before)
        assert signs[-1] or fault.disturb is leave_alone, (name, said)
        assert fault.error in said or not process.returncode, (name, said)
        if process.returncode:
            lab.shop.run(*job.command)
        assert lab.shop.is_exact(), (name, said)
    assert any(signs)
    assert lab.shop.find_leftovers() == set()
