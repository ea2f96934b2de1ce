"""Database servers that tests start in temporary folders on free ports of the loopback, and stop."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from sample_project.servers import (
    DatabaseServer,
    Missing,
    PostgreSQLServer,
    ServerError,
    free_port,
    private_folder,
    start_server,
    unprivileged,
    wait_until,
)

__all__ = [
    "MariaDBServer",
    "Missing",
    "PostgreSQLServer",
    "ServerError",
    "free_port",
    "private_folder",
    "start_server",
    "wait_until",
]

_SECONDS_TO_PURGE = 60.0


class MariaDBServer(DatabaseServer):
    """A MariaDB with a binary log, and its superuser `root`, who needs no password.

    Its clock is in another time zone than those who read it.
    """

    database = "shop"
    end_signal = signal.SIGKILL

    def __init__(self, **settings: str) -> None:
        program = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if program is None:
            raise Missing("MariaDB is not installed: make databases")
        self._program, self._settings = program, settings
        self._user = unprivileged("mysql")
        self.folder = private_folder("arctic-mariadb-", self._user)
        self.port = free_port()
        self._run(
            "mariadb-install-db", "--no-defaults", f"--datadir={self.folder / 'data'}", "--skip-test-db",
            "--auth-root-authentication-method=normal",
        )  # fmt: skip
        self.start()
        self.sql(f"create database {self.database}", database="mysql")

    def _make_temporary_folder(self) -> Path:
        folder = self.folder / "temporary"
        folder.mkdir(exist_ok=True)
        if self._user is not None:
            shutil.chown(folder, self._user)
        return folder

    def start(self) -> None:
        chosen = {
            "port": str(self.port),
            "bind-address": "127.0.0.1",
            "socket": str(self.folder / "socket"),
            "pid-file": str(self.folder / "pid"),
            "datadir": str(self.folder / "data"),
            # A server that starts removes what it takes for the files of a dead one in a common folder.
            "tmpdir": str(self._make_temporary_folder()),
            "log-bin": "binlog",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "server-id": "1",
            "character-set-server": "utf8mb4",
            "default-time-zone": "+05:30",
            "innodb-flush-log-at-trx-commit": "0",
            "skip-name-resolve": "1",
            **self._settings,
        }
        command = [self._program, "--no-defaults", *[f"--{key}={value}" for key, value in chosen.items()]]
        self.started(command, self._user, self._answers)

    def sql(self, *statements: str, database: str | None = None) -> str:
        """What statements print, all by one connection."""
        where = ["--no-defaults", "-h127.0.0.1", f"-P{self.port}", "-uroot", "-N", "--default-character-set=utf8mb4"]
        return self._run("mariadb", *where, database or self.database, "-e", ";".join(statements)).strip()

    def purge_logs(self) -> None:
        """Forgets all logs but the newest; a log stays while the server has not noticed that its reader is gone."""
        until = time.monotonic() + _SECONDS_TO_PURGE
        while len(logs := self.sql("show binary logs").splitlines()) > 1 and time.monotonic() < until:
            self.sql(f"purge binary logs to '{logs[-1].split()[0]}'")
            time.sleep(0.1)

    def _answers(self) -> bool:
        command = ["mariadb-admin", "--no-defaults", "-h127.0.0.1", f"-P{self.port}", "-uroot", "ping"]
        return subprocess.run(command, capture_output=True, cwd=self.folder, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, user=self._user, cwd=self.folder, check=False
        )
        if done.returncode:
            raise ServerError(f"{program} {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done.stdout
