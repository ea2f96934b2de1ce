"""Processes of a soak: the service, which is started again when it has ended, and commands one after another."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = (
    ("dbt", "build", "--target", "whole"),
    ("dbt", "run"),
    ("arctic", "compact", "--all"),
    ("arctic", "expire", "regions"),
    ("arctic", "expire", "open_orders"),
    ("arctic", "compact", "accounts", "--mode", "full"),
    ("arctic", "expire", "accounts", "--orphans"),
    ("arctic", "savepoint", "regions", "soak"),
    ("arctic", "restore", "regions", "--version", "soak"),
    ("arctic", "savepoint", "regions", "soak", "--drop"),
    ("arctic", "verify"),
)
_MODULES = {"dbt": "dbt.cli.main", "arctic": "dbt.adapters.arctic.command_line"}


class Group:
    """A command, and the processes that it has started, which faults may end or stop."""

    def __init__(self, folder: Path, words: tuple[str, ...], log: Path) -> None:
        where = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
        command = [sys.executable, "-c", f"import sys; from {_MODULES[words[0]]} import {_enter(words[0])}"]
        self.words, self.log = words, log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, *words[1:], *where],
                env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.was_hurt = False

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals, only: str = "") -> None:
        """Sends a signal to all processes of the command, or to those of one program, such as `java`.

        From then on a fault has hurt it.
        """
        self.was_hurt = True
        for process in self._list_processes():
            if not only or _read_program(process) == only:
                with suppress(ProcessLookupError):
                    os.kill(process, number)

    def read_sizes(self) -> dict[str, int]:
        """Returns memory in bytes, threads, open files and connections of the Python and of what it has started.

        The Java of Debezium is a part of the Python.
        """
        sizes: Counter[str] = Counter()
        for process in self._list_processes():
            who = "java" if _read_program(process) == "java" else "python"
            with suppress(OSError):
                status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
                files = [_read_link(file) for file in Path(f"/proc/{process}/fd").iterdir()]
                sizes[f"{who}_bytes"] += 1024 * int(status.get("VmRSS", "0 kB").split()[0])
                sizes[f"{who}_threads"] += int(status["Threads"])
                sizes[f"{who}_files"] += len(files)
                sizes[f"{who}_connections"] += sum(name.startswith("socket:") for name in files)
        return dict(sizes)

    def end(self, seconds: float) -> int:
        """Ends the command as a person does, and by force after some seconds; returns its exit code."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            return self._process.wait(30)

    def wait(self, seconds: float) -> int | None:
        """Returns the exit code; None if the command runs longer."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def _list_processes(self) -> list[int]:
        """Lists the processes of the command: it, and all that it has started, such as Java."""
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    # The name of a program, in parentheses, may have spaces.
                    after = (entry / "stat").read_text().rpartition(") ")[2].split()
                    parents[int(entry.name)] = int(after[1])
        found, todo = [], [self._process.pid]
        while todo:
            found.append(todo.pop())
            todo += [child for child, parent in parents.items() if parent == found[-1]]
        return found


class Commands(threading.Thread):
    """Runs commands at random, one after another; keeps how each of them ended."""

    def __init__(self, folder: Path, seed: int, number: int, pause_seconds: float) -> None:
        super().__init__(daemon=True)
        self.group: Group | None = None
        self.ended: Counter[str] = Counter()
        self.stuck: list[str] = []
        self._folder, self._random, self._pause = folder, random.Random(f"{seed}/{number}"), pause_seconds
        self._log = folder / f"commands-{number}.log"
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(self._pause):
            words = self._random.choice(COMMANDS)
            self.group = Group(self._folder, words, self._log)
            began = time.monotonic()
            while (code := self.group.wait(1)) is None and time.monotonic() < began + 600:
                if self._is_over.is_set() and time.monotonic() > began + 300:
                    break
            if code is None:
                self.stuck.append(" ".join(words))
                self.group.send(signal.SIGKILL)
            how = "hurt" if self.group.was_hurt else "done" if code == 0 else f"exit {code}"
            self.ended[f"{' '.join(words[:2])}: {how}"] += 1

    def end(self) -> None:
        self._is_over.set()
        self.join()


def _read_link(link: Path) -> str:
    """Reads where a link leads; empty if it is gone."""
    with suppress(OSError):
        return str(link.readlink())
    return ""


def _read_program(process: int) -> str:
    """Reads the name of a process's program; empty if the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""


def _enter(program: str) -> str:
    return "cli; cli()" if program == "dbt" else "main; sys.exit(main())"
