"""Database servers that tests start in temporary folders on free ports of the loopback, and stop."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

POSTGRESQL = Path("/usr/lib/postgresql")
_SECONDS_TO_START = 60.0


class Missing(Exception):
    """A server's programs are not installed; the text says how to get them."""


class Session:
    """A connection of a client program that reads statements."""

    def __init__(self, client: subprocess.Popen[str]) -> None:
        self._client = client

    def sql(self, *statements: str) -> None:
        """Runs statements, and waits for them."""
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._client.stdin.write("".join(f"{statement};\n" for statement in (*statements, "select 'done'")))
        self._client.stdin.flush()
        while self._client.stdout.readline().strip() != "done":
            pass


class DatabaseServer(ABC):
    """A server in a folder of its own, which `end_signal` ends at once, as a crash does."""

    folder: Path
    end_signal: signal.Signals
    _server: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Starts the server, and waits until it answers."""

    def stop(self) -> None:
        if self._server is not None:
            self._server.send_signal(self.end_signal)
            self._server.wait(30)
            self._server = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class PostgreSQLServer(DatabaseServer):
    """A PostgreSQL with logical replication, and its superuser `postgres`, who needs no password."""

    database = "shop"
    end_signal = signal.SIGQUIT
    """A gentle stop waits for readers of the log."""

    def __init__(self, **settings: str) -> None:
        self._programs = _newest(POSTGRESQL)
        self._settings = settings
        self._user = unprivileged("postgres")
        self.folder = private_folder("arctic-postgresql-", self._user)
        self.port = free_port()
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        # Users other than the superuser need their password, so that wrong ones can be tried.
        rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        replication = "host replication postgres 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 scram-sha-256\n"
        (self.folder / "data" / "pg_hba.conf").write_text(f"{rules}{replication}")
        self.start()
        self.sql(f"create database {self.database}", database="postgres")

    def start(self) -> None:
        chosen = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "wal_level": "logical",
            "max_replication_slots": "50",
            "max_wal_senders": "50",
            "fsync": "off",
            **self._settings,
        }
        options = [part for key, value in chosen.items() for part in ("-c", f"{key}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]
        self._server = start_server(command, self.folder, self._user)
        wait_until(lambda: self._try("pg_isready", "-h", "127.0.0.1", "-p", str(self.port)), self._server, self.folder)

    def sql(self, *statements: str, database: str | None = None) -> str:
        """What statements print, each in a transaction of its own."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", database or self.database]
        asked = [part for statement in statements for part in ("-c", statement)]
        return self._run("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", *where, *asked).strip()

    def copy(self, table: str, lines: Sequence[str]) -> None:
        """Loads rows by one COPY; a row is text with tabs between its values."""
        file = self.folder / "rows"
        file.write_text("".join(f"{line}\n" for line in lines))
        self.sql(f"copy {table} from '{file}'")

    def pgbench(self, script: str, *arguments: str) -> None:
        """Runs PostgreSQL's load generator with a script of its own language."""
        file = self.folder / "script"
        file.write_text(script)
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", self.database]
        self._run("pgbench", "-n", "-f", str(file), *arguments, *where)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One connection for statements of one transaction."""
        command = [str(self._programs / "psql"), "-qAtX", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        opened = subprocess.Popen(
            [*command, self.database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=self._user,
            cwd=self.folder,
        )  # fmt: skip
        try:
            yield Session(opened)
        finally:
            opened.communicate()

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, user=self._user, cwd=self.folder, check=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def _try(self, program: str, *arguments: str) -> bool:
        command = [str(self._programs / program), *arguments]
        return (
            subprocess.run(command, capture_output=True, user=self._user, cwd=self.folder, check=False).returncode == 0
        )


def unprivileged(name: str) -> str | None:
    """The user that runs a server where the tests run as root, which servers refuse; else None."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name for user in pwd.getpwall()}
    return name if name in users else "nobody"


def private_folder(prefix: str, user: str | None) -> Path:
    """A new folder outside of pytest's own, which other users can't enter."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if user is not None:
        shutil.chown(folder, user)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_server(command: Sequence[str], folder: Path, user: str | None) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=user, cwd=folder)


def wait_until(ready: object, server: subprocess.Popen[bytes], folder: Path) -> None:
    """Waits for a server's first answer; fails with its log."""
    until = time.monotonic() + _SECONDS_TO_START
    assert callable(ready)
    while not ready():
        if server.poll() is not None or time.monotonic() > until:
            raise AssertionError(f"the server did not start:\n{(folder / 'log').read_text()[-3000:]}")
        time.sleep(0.05)


def _newest(folder: Path) -> Path:
    found = sorted(folder.glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if not found:
        raise Missing("PostgreSQL is not installed: make databases")
    return found[-1].parent


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

    def start(self) -> None:
        chosen = {
            "port": str(self.port),
            "bind-address": "127.0.0.1",
            "socket": str(self.folder / "socket"),
            "pid-file": str(self.folder / "pid"),
            "datadir": str(self.folder / "data"),
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
        self._server = start_server(command, self.folder, self._user)
        wait_until(self._answers, self._server, self.folder)

    def sql(self, *statements: str, database: str | None = None) -> str:
        """What statements print, all by one connection."""
        where = ["--no-defaults", "-h127.0.0.1", f"-P{self.port}", "-uroot", "-N", "--default-character-set=utf8mb4"]
        return self._run("mariadb", *where, database or self.database, "-e", ";".join(statements)).strip()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The server neither answers nor ends connections, as behind a network that is gone."""
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._server.send_signal(signal.SIGCONT)

    def purge_logs(self) -> None:
        """Forgets all logs but the newest; a log stays while the server has not noticed that its reader is gone."""
        until = time.monotonic() + _SECONDS_TO_START
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
            raise AssertionError(f"{program} {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done.stdout
