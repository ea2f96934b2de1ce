"""Database servers in temporary folders, on free ports of the loopback, that end with the process that started them."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

OLDEST_POSTGRESQL = 14
_SECONDS_TO_START = 60.0
_PORTS_TO_TRY = 3
_PORTS = (16_000, 32_000)
"""Below those that systems take for outgoing connections."""
_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
"""Where packages for Debian, Red Hat and macOS put PostgreSQL's programs."""

_GUARD = 'cat; kill -s "$1" "$2"; rm -rf "$3"'


class Missing(Exception):
    """A server's programs are not installed; the text says how to get them."""


class ServerError(Exception):
    """A server did not start, or refused a statement; the text is what it said."""


class Session:
    """A connection of a client program that reads statements."""

    def __init__(self, client: subprocess.Popen[str]) -> None:
        self._client = client

    def sql(self, *statements: str) -> None:
        """Runs statements, and waits for them; raises ServerError where one fails, which ends the session."""
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        try:
            self._client.stdin.write("".join(f"{statement};\n" for statement in (*statements, "select 'done'")))
            self._client.stdin.flush()
            while (line := self._client.stdout.readline()).strip() != "done":
                if not line:
                    raise ServerError(self._reason())
        except BrokenPipeError:
            raise ServerError(self._reason()) from None

    def _reason(self) -> str:
        assert self._client.stderr is not None
        return self._client.stderr.read().strip() or "the database's client ended"


class DatabaseServer(ABC):
    """A server in a folder of its own, which `end_signal` ends at once, as a crash does."""

    folder: Path
    end_signal: signal.Signals
    _server: subprocess.Popen[bytes] | None = None
    _guard: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Starts the server, and waits until it answers."""

    def stop(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        if self._server is not None:
            self._server.send_signal(self.end_signal)
            self._server.wait(30)
            self._server = None

    def restart(self) -> None:
        self.stop()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The server neither answers nor ends connections, as behind a network that is gone."""
        assert self._server is not None
        process = self._server.pid
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        processes = [process, *map(int, children)]
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in processes:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def started(self, command: Sequence[str], user: str | None, answers: Callable[[], bool]) -> None:
        """Starts a program as the server; raises ServerError with its log where it does not answer."""
        self._server = start_server(command, self.folder, user)
        self._guard = _guard(self._server, self.end_signal, self.folder)
        wait_until(answers, self._server, self.folder)


class PostgreSQLServer(DatabaseServer):
    """A PostgreSQL with logical replication, and its superuser `postgres`, who needs no password.

    Raises Missing where PostgreSQL is not installed, ServerError where it does not start.
    """

    end_signal = signal.SIGQUIT
    """A gentle stop waits for readers of the log."""

    def __init__(self, database: str = "shop", **settings: str) -> None:
        self._programs, self.version = newest_postgresql()
        self.database = database
        self._settings = settings
        self._user = unprivileged("postgres")
        self.folder = private_folder("arctic-postgresql-", self._user)
        try:
            self._create()
        except BaseException:
            self.remove()
            raise

    def _create(self) -> None:
        data = self.folder / "data"
        self._run("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        # Users other than the superuser need their password, so that wrong ones can be tried.
        rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        replication = "host replication postgres 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 scram-sha-256\n"
        (data / "pg_hba.conf").write_text(f"{rules}{replication}")
        for attempt in range(_PORTS_TO_TRY):
            self.port = free_port()
            try:
                self.start()
                break
            except ServerError as error:
                self.stop()
                if "could not bind" not in str(error) or attempt == _PORTS_TO_TRY - 1:
                    raise
        self.sql(f"create database {self.database}", database="postgres")

    def start(self) -> None:
        chosen = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_replication_slots": "50",
            "max_wal_senders": "50",
            "fsync": "off",
            **self._settings,
        }
        options = [part for key, value in chosen.items() for part in ("-c", f"{key}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]
        self.started(command, self._user, lambda: self._try("pg_isready", "-h", "127.0.0.1", "-p", str(self.port)))

    def sql(self, *statements: str, database: str | None = None) -> str:
        """What statements print, each in a transaction of its own."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", database or self.database]
        asked = [part for statement in statements for part in ("-c", statement)]
        return self._run("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", *where, *asked).strip()

    def copy(self, table: str, lines: Sequence[str], form: str = "text") -> None:
        """Loads rows by one COPY; a row is text with tabs between its values, or as another format has it."""
        file = self.folder / "rows"
        file.write_text("".join(f"{line}\n" for line in lines))
        self.sql(f"copy {table} from '{file}' (format {form})")

    def pgbench(self, script: str, *arguments: str) -> None:
        """Runs PostgreSQL's load generator with a script of its own language."""
        file = self.folder / "script"
        file.write_text(script)
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", self.database]
        self._run("pgbench", "-n", "-f", str(file), *arguments, *where)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One connection for statements of one transaction or of many."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", self.database]
        opened = subprocess.Popen(
            [str(self._programs / "psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", *where],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, user=self._user,
            cwd=self.folder, start_new_session=True,
        )  # fmt: skip
        try:
            yield Session(opened)
        finally:
            opened.communicate()

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, user=self._user, cwd=self.folder, check=False)
        if done.returncode:
            raise ServerError(f"{' '.join(command)}\n{done.stdout}{done.stderr}".strip())
        return done.stdout

    def _try(self, program: str, *arguments: str) -> bool:
        command = [str(self._programs / program), *arguments]
        return (
            subprocess.run(command, capture_output=True, user=self._user, cwd=self.folder, check=False).returncode == 0
        )


def unprivileged(name: str) -> str | None:
    """The user that runs a server where this process is root's, which servers refuse; else None."""
    import pwd

    if os.geteuid() != 0:
        return None
    users = {user.pw_name for user in pwd.getpwall()}
    return name if name in users else "nobody"


def private_folder(prefix: str, user: str | None) -> Path:
    """A new temporary folder, which other users can't enter."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if user is not None:
        shutil.chown(folder, user)
    return folder


def free_port() -> int:
    """A port that nobody listens on, and that no outgoing connection is given before a server listens there."""
    while True:
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def start_server(command: Sequence[str], folder: Path, user: str | None) -> subprocess.Popen[bytes]:
    """A program in a process group of its own: Ctrl-C ends it only after those who still use it."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=user, cwd=folder, start_new_session=True
        )


def wait_until(ready: Callable[[], bool], server: subprocess.Popen[bytes], folder: Path) -> None:
    """Waits for a server's first answer; raises ServerError with the end of its log."""
    until = time.monotonic() + _SECONDS_TO_START
    while not ready() or server.poll() is not None:
        if server.poll() is not None or time.monotonic() > until:
            raise ServerError(f"the server did not start:\n{(folder / 'log').read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)


def _guard(server: subprocess.Popen[bytes], how: signal.Signals, folder: Path) -> subprocess.Popen[bytes]:
    """Ends a server and removes its folder when this process is gone, since its own input ends then."""
    values = [how.name.removeprefix("SIG"), str(server.pid), str(folder)]
    return subprocess.Popen(
        ["sh", "-c", _GUARD, "guard", *values], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd="/",
        start_new_session=True,
    )  # fmt: skip


def newest_postgresql() -> tuple[Path, str]:
    """The folder of the programs of the newest PostgreSQL that is installed, and its version."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += [path for pattern in _FOLDERS for path in Path("/").glob(pattern[1:]) if (path / "postgres").exists()]
    versions = {folder: _version(folder / "postgres") for folder in folders if (folder / "initdb").exists()}
    if not versions:
        raise Missing("PostgreSQL is not installed: make databases")
    folder, version = max(versions.items(), key=lambda one: one[1])
    text = ".".join(map(str, version))
    if version < (OLDEST_POSTGRESQL,):
        raise Missing(f"PostgreSQL {text} is installed in {folder}, and {OLDEST_POSTGRESQL} or newer is needed")
    return folder, text


def _version(program: Path) -> tuple[int, ...]:
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\d+(\.\d+)?", done.stdout)
    return tuple(map(int, match[0].split("."))) if match else (0,)
