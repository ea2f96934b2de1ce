"""Starts a process that does something up to some point, and kills it there, or its Java, or both, or lets it go on."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS_TO_END = 60
"""Within this time a process has to end, or to say what happened, once a part of it is killed."""


@dataclass(frozen=True)
class Child:
    """A process that has come to its last line; the lines before have a name and a value, such as `java` and its id."""

    process: subprocess.Popen[str]
    java: int
    lines: dict[str, str]

    @classmethod
    def start(cls, module: str, arguments: dict[str, Any], last_line: str) -> Child:
        """Starts a module with arguments as JSON, and reads what it prints up to its last line."""
        process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(arguments)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = _read_lines(process, last_line)
        return cls(process, int(lines.pop("java")), lines)

    def kill(self) -> None:
        """Kills Python and Java."""
        for process in (self.process.pid, self.java):
            os.kill(process, signal.SIGKILL)
        self.process.communicate()

    def kill_python(self) -> None:
        """Kills Python alone, and waits until Java has ended by itself."""
        self.process.kill()
        self.process.communicate()
        deadline = time.monotonic() + SECONDS_TO_END
        while _is_running(self.java):
            if time.monotonic() > deadline:
                os.kill(self.java, signal.SIGKILL)
                raise AssertionError(f"Java lives on {SECONDS_TO_END} s after its Python")
            time.sleep(0.1)

    def kill_java(self) -> dict[str, str]:
        """Kills Java alone, lets Python go on, and returns what it prints until it has ended by itself."""
        os.kill(self.java, signal.SIGKILL)
        return self.go_on()

    def go_on(self) -> dict[str, str]:
        """Lets the process go on to its end, and returns what it prints."""
        try:
            text, _ = self.process.communicate("go on\n", SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert self.process.returncode == 0
        return dict(line.split(maxsplit=1) for line in text.splitlines())


def killed(module: str, arguments: dict[str, Any], last_line: str) -> dict[str, str]:
    """Starts a module with arguments as JSON, and kills it and its Java at its last line."""
    child = Child.start(module, arguments, last_line)
    child.kill()
    return child.lines


def _read_lines(process: subprocess.Popen[str], last_line: str) -> dict[str, str]:
    assert process.stdout is not None
    return dict(line.split() for line in itertools.takewhile(lambda line: line != f"{last_line}\n", process.stdout))


def _is_running(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waits for does not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
