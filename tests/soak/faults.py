"""Faults of a soak, one after another at random, each with the seconds that it lasts."""

from __future__ import annotations

import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from tests.soak.databases import Databases
from tests.soak.processes import Commands, Group

LOCK_SECONDS, PAUSE_SECONDS = 60.0, 30.0


class Faults(threading.Thread):
    """Does a fault every `each_seconds`; `get_service` returns the service's process."""

    def __init__(
        self,
        seed: int,
        each_seconds: float,
        databases: Databases,
        warehouse: Path,
        get_service: Callable[[], Group],
        commands: Sequence[Commands],
    ) -> None:
        super().__init__(daemon=True)
        self.done: Counter[str] = Counter()
        self.last_end = time.monotonic()
        self._random, self._each = random.Random(seed), each_seconds
        self._databases, self._warehouse = databases, warehouse
        self._get_service, self._commands = get_service, commands
        self._is_over = threading.Event()

    def run(self) -> None:
        kinds: list[Callable[[], None]] = [
            self.kill_service,
            self.kill_java,
            self.pause_service,
            self.restart_postgresql,
            self.restart_mariadb,
            self.freeze_mariadb,
            self.lock_catalog,
            self.kill_command,
        ]
        waiting: list[Callable[[], None]] = []
        while not self._is_over.wait(self._each):
            waiting = waiting or self._random.sample(kinds, len(kinds))
            fault = waiting.pop()
            fault()
            self.done[fault.__name__] += 1
            self.last_end = time.monotonic()

    def end(self) -> None:
        self._is_over.set()
        self.join()

    def kill_service(self) -> None:
        self._get_service().send(signal.SIGKILL)

    def kill_java(self) -> None:
        self._get_service().send(signal.SIGKILL, only="java")

    def pause_service(self) -> None:
        service = self._get_service()
        service.send(signal.SIGSTOP)
        self._is_over.wait(PAUSE_SECONDS)
        service.send(signal.SIGCONT)

    def restart_postgresql(self) -> None:
        self._databases.postgresql.restart()

    def restart_mariadb(self) -> None:
        self._databases.mariadb.restart()

    def freeze_mariadb(self) -> None:
        with self._databases.mariadb.frozen():
            self._is_over.wait(PAUSE_SECONDS)

    def lock_catalog(self) -> None:
        """Holds the lock of the catalog's database, as a backup does."""
        with closing(sqlite3.connect(self._warehouse / "catalog.db", timeout=30, isolation_level=None)) as connection:
            connection.execute("begin exclusive")
            self._is_over.wait(LOCK_SECONDS)
            connection.execute("rollback")

    def kill_command(self) -> None:
        groups = [commands.group for commands in self._commands if commands.group is not None]
        running = [group for group in groups if group.is_running]
        if running:
            self._random.choice(running).send(signal.SIGKILL)
