"""The tutorial: its files are written, its commands typed, and what it shows is what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from sample_project.servers import newest_postgresql
from tests.ingest.conftest import running
from tests.ingest.servers import PostgreSQLServer, free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
MODULES = {"dbt": "dbt.cli.main", "arctic": "dbt.adapters.arctic.command_line"}
SECONDS_UNTIL_LIVE = 300.0

pytestmark = pytest.mark.slow

_FILE = re.compile(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"^```sh\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_MASKED = (
    (r"\d\d:\d\d:\d\d(\+00:00)?", "TIME"),
    (r"\d{4}-\d\d-\d\d", "DAY"),
    (r"[\d,.]+ ?s\b", "SECONDS"),
    (r"\(\d+/s\)", "(RATE)"),
    (r"LSN [\dA-F]+/[\dA-F]+", "LSN"),
    (r"\b\d{15,19}\b", "VERSION"),
    (r"\[(incremental|full) ", "[MODE "),
    (r"\b(incremental +CHANGES|full +COST) +", "MODE "),
    (r"http://127.0.0.1:\d+", "ADDRESS"),
)
"""Patterns of what differs between two runs of the same commands, and what stands for them."""


class Step(NamedTuple):
    """Commands that the page says to type, and the lines that it shows as their output."""

    commands: str
    shown: list[str]


def mask_text(text: str) -> list[str]:
    """Lines without what differs between two runs."""
    for pattern, name in _MASKED:
        text = re.sub(pattern, name, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_steps() -> Iterator[Step]:
    """What is to be typed, without the installation and the place of the reader's own PostgreSQL."""
    for commands, shown in _STEP.findall(PAGE.split("## The database", 1)[1]):
        if not commands.startswith("export PGHOST"):
            yield Step(commands, mask_text(shown))


class Terminal:
    """A folder with the tutorial's project, in which its commands are typed."""

    def __init__(self, folder: Path, server: PostgreSQLServer) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        for command, module in MODULES.items():
            file = folder / "bin" / command
            file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W ignore -m {module} "$@"\n')
            file.chmod(0o755)
        for name, content in _FILE.findall(PAGE):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(folder / "bin"), str(newest_postgresql()[0]), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "DBT_USE_COLORS": "false",
            "DO_NOT_TRACK": "1",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(server.port),
            "PGDATABASE": server.database,
            "PGUSER": "postgres",
        }

    def type(self, commands: str) -> list[str]:
        """What commands print, masked; exported variables stay for those that are typed later."""
        self.environment |= dict(re.findall(r"^export (\w+)=(\S+)$", commands, re.MULTILINE))
        done = subprocess.run(
            ["bash", "-e", "-c", commands],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return mask_text(done.stdout + done.stderr)


class Service:
    """A command that goes on until it is stopped."""

    def __init__(self, command: str, terminal: Terminal) -> None:
        self._log = terminal.folder / "serve.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", command], cwd=terminal.folder, env=terminal.environment, stdout=log, stderr=log
            )

    def read_output(self) -> list[str]:
        return mask_text(self._log.read_text())

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(120) == 0, self._log.read_text()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)


@pytest.fixture
def server() -> Iterator[PostgreSQLServer]:
    """A server of its own: the tutorial makes a role, which belongs to the whole server."""
    made = running(lambda: PostgreSQLServer("shop"))
    yield made
    made.remove()


def test_the_tutorial_shows_what_its_commands_print(tmp_path: Path, server: PostgreSQLServer) -> None:
    terminal = Terminal(tmp_path, server)
    service: Service | None = None
    try:
        for step in read_steps():
            type_commands = partial(terminal.type, step.commands)
            if step.commands == "arctic serve\n":
                service = Service(f"exec {step.commands.strip()} --port {free_port()}", terminal)
                wait_for(step, service.read_output)
            elif service is None:
                assert_shown(step, type_commands())
            elif step.commands == "arctic verify\n":
                service.stop()
                assert_shown(step, type_commands())
            elif step.shown:
                wait_for(step, type_commands)
            else:
                type_commands()
    finally:
        if service is not None:
            service.kill()


def assert_shown(step: Step, printed: list[str]) -> None:
    """Each line that the page shows is the end of one that was printed, in this order."""
    rest = iter(printed)
    for shown in step.shown:
        assert any(line.endswith(shown) for line in rest), (step.commands, shown, printed)


def wait_for(step: Step, read_printed: Callable[[], list[str]]) -> None:
    """Repeats commands that only look until they print what the page shows."""
    end = time.monotonic() + SECONDS_UNTIL_LIVE
    while time.monotonic() < end:
        with suppress(AssertionError):
            return assert_shown(step, read_printed())
        time.sleep(1)
    return assert_shown(step, read_printed())
