"""Joins the kept server that takes the place of an embedded Spark (`keep_alive`), and starts or replaces it.

A server with other settings is replaced if no command uses it. If that is not possible, or anything else fails, the
caller starts a Spark in its own process. Whether Spark is kept, and for how long, depends on where the command runs.

Each command records that it uses the server, which ends only if none does: it holds the lock of a file of its own
meanwhile, which the system releases however the command ends. Whoever joins, replaces or ends the server does so at the
door, a lock that one process holds at a time: so no command joins a server that is about to end.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.plan.config.maintenance_settings import read_lag
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.server import Server
from arctic_runtime.thresholds import EngineThresholds

_USES = "uses"
_DOOR = "door"


def begin_warm_server(profile: Profile) -> None:
    """Begins to start the kept server of a profile, if none runs, and returns at once; raises no error.

    A later `join_warm_server` waits for it, and reports what is wrong.
    """
    if not profile.keeps_warm or PROCESS.root is not None or PROCESS.server_process is not None:
        return
    with suppress(ArcticError, OSError):
        directory, thresholds = server.get_directory(profile), profile.thresholds.engine
        server.make_directory(directory)
        PROCESS.server_use = _announce_server(directory, server.hash_profile(profile), thresholds)
        if not server.is_held(directory, thresholds):
            PROCESS.server_process = server.spawn_server(profile, directory)


def join_warm_server(profile: Profile) -> Server:
    """Returns the kept server of a profile, and records that this process uses it until `leave_warm_server`.

    Starts it if none runs, and replaces an unused one with other settings. Raises ConfigError if it can't be started or
    replaced.
    """
    directory, thresholds = server.get_directory(profile), profile.thresholds.engine
    server.make_directory(directory)
    PROCESS.server_use = _announce_server(directory, server.hash_profile(profile), thresholds)
    try:
        return _find_or_start(profile, directory, thresholds)
    except BaseException:
        leave_warm_server()
        raise


def leave_warm_server() -> None:
    """Ends the use of a kept server by this process; does nothing if it uses none."""
    use, PROCESS.server_use = PROCESS.server_use, None
    if use is not None:
        use.end_use()


def _announce_server(directory: Path, fingerprint: str, thresholds: EngineThresholds) -> ServerUse:
    leave_warm_server()
    with open_door(directory, thresholds):
        return announce_use(directory, fingerprint)


def _find_or_start(profile: Profile, directory: Path, thresholds: EngineThresholds) -> Server:
    wanted = server.hash_profile(profile)
    for _ in range(thresholds.server_join_attempts):
        with open_door(directory, thresholds):
            running = server.find_server(profile)
            if running is not None and running.fingerprint == wanted:
                return running
            if running is not None:
                _withdraw_unused(directory, running)
        if running is not None and not server.wait_for_end(directory, thresholds):
            break
        spawned, PROCESS.server_process = PROCESS.server_process, None
        started = server.start_server(profile, spawned)
        (
            PROCESS.report(
                f"Spark is kept for the next commands, in process {started.pid}, until none has used it for "
                f"{started.keep_alive_seconds / 60:.3g} minutes; `arctic spark stop` ends it"
            )
        )
    raise ConfigError(
        "The kept Spark server was not replaced in time.",
        where=str(directory),
        expected="a server with the settings of the profile",
        actual="other commands start servers with other settings",
        fix="run `arctic spark stop`",
    )


def _withdraw_unused(directory: Path, running: Server) -> None:
    """Asks a server with other settings to end; raises ConfigError if a command uses it. Needs the open door."""
    users = find_uses(directory, running.fingerprint).users
    if users:
        raise ConfigError(
            f"The kept Spark server has other settings, and process {', '.join(users)} uses it.",
            where=f"process {running.pid}, since {running.since}",
            expected="the same settings, environment variables and working folder, or a server that is not used",
            actual="other ones",
            fix="wait for the other command; then the next one replaces the server",
        )
    server.withdraw_address(directory)


@dataclass(frozen=True)
class ServerUse:
    """The use of a kept server by this process, until `end_use`; `file` is locked meanwhile."""

    file: Path
    lock: FileLock

    @property
    def name(self) -> str:
        """The name by which the server knows the sessions of this use."""
        return self.file.name

    def end_use(self) -> None:
        """Ends the use; the file stays, so that the server notices that it was used."""
        self.lock.release()


@dataclass(frozen=True)
class Uses:
    """Uses of a server: the process ids of the commands that use it, and the names of the uses that have just ended."""

    users: tuple[str, ...]
    ended: tuple[str, ...]

    @property
    def is_any(self) -> bool:
        """Whether the server was used at any time since the last look."""
        return bool(self.users or self.ended)


@contextmanager
def open_door(directory: Path, thresholds: EngineThresholds) -> Iterator[None]:
    """Holds the right to join, to replace or to end the server until the block ends.

    Raises ConfigError if another process holds it for too long.
    """
    door = FileLock(directory / _DOOR)
    try:
        door.acquire(timeout=thresholds.server_door_seconds, poll_interval=thresholds.server_probe_seconds / 4)
    except Timeout:
        raise ConfigError(
            "The kept Spark server can't be joined.",
            where=str(directory / _DOOR),
            expected=f"the lock is free within {thresholds.server_door_seconds:.0f} s",
            actual="another process holds it",
            fix="run `arctic spark stop`",
        ) from None
    try:
        yield
    finally:
        door.release()


def announce_use(directory: Path, fingerprint: str) -> ServerUse:
    """Records that this process uses a server with this fingerprint, or waits for its start; needs the open door."""
    folder = directory / _USES
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
    lock = FileLock(file, thread_local=False)
    lock.acquire(timeout=0)
    file.write_text(fingerprint)
    return ServerUse(file, lock)


def find_uses(directory: Path, fingerprint: str) -> Uses:
    """Finds the uses of the server with this fingerprint, and deletes the records of those that have ended.

    Needs the open door.
    """
    users, ended = [], []
    for file in sorted((directory / _USES).glob("*-*")):
        is_ours = file.read_text() == fingerprint
        if _is_locked(file):
            users += [file.name.partition("-")[0]] if is_ours else []
        else:
            file.unlink(missing_ok=True)
            ended += [file.name] if is_ours else []
    return Uses(tuple(users), tuple(ended))


def _is_locked(file: Path) -> bool:
    try:
        with FileLock(file).acquire(timeout=0):
            return False
    except Timeout:
        return True


_NOT_SET = ("", "0", "false", "no")
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_CONTAINER_VARIABLES = ("KUBERNETES_SERVICE_HOST", "container")


@dataclass(frozen=True)
class Surroundings:
    """The place where a command runs: at a terminal, in CI or in a container, and the memory that is available there.

    `free_bytes` is None if it is not known.
    """

    is_terminal: bool
    is_ci: bool
    is_container: bool
    free_bytes: int | None


KEEP_ALIVE_SCHEMA: Final = {"anyOf": [{"const": 0}, {"type": "string", "pattern": r"^\s*0\s*$"}, read_lag.schema]}
"""JSON schema of the values that `read_keep_alive` accepts."""


def read_keep_alive(value: Any) -> float:
    """Reads the profile's key `keep_alive`, a time such as `15m`, as seconds; 0 keeps nothing.

    Raises ConfigError for any other value.
    """
    if isinstance(value, (int, str)) and not isinstance(value, bool) and str(value).strip() == "0":
        return 0.0
    try:
        return float(read_lag("keep_alive", value))
    except ConfigError as error:
        raise ConfigError(f"{error.message}; 0 keeps nothing") from None


def choose_keep_alive(
    surroundings: Surroundings, has_server: Callable[[], bool], thresholds: EngineThresholds
) -> float:
    """Returns the seconds for which Spark is kept if the profile does not say it; 0 keeps nothing.

    Spark is kept for somebody at a terminal, but not in CI, in a container, or if memory is short. `has_server` says
    whether a kept Spark runs already, which needs no more memory; it is only called if memory is short.
    """
    here = surroundings
    if not here.is_terminal or here.is_ci or here.is_container:
        return 0.0
    is_short = here.free_bytes is not None and here.free_bytes < thresholds.keep_alive_free_bytes
    return 0.0 if is_short and not has_server() else thresholds.keep_alive_seconds


def observe_surroundings(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Surroundings:
    """Observes where this process runs, by its terminal, its environment variables and files below `root`."""
    has_variable = any(environment.get(name) for name in _CONTAINER_VARIABLES)
    return Surroundings(
        is_terminal=any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)),
        is_ci=environment.get("CI", "").lower() not in _NOT_SET,
        is_container=has_variable or any((root / file).exists() for file in _CONTAINER_FILES),
        free_bytes=measure_free_memory(root),
    )


def measure_free_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this machine can give to programs without swapping; None if the system does not say it."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        sizes = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in lines)}
        return int(sizes["MemAvailable"]) * 1024
    except (OSError, KeyError, IndexError, ValueError):
        return None


class IdleTimer:
    """Measures for how long a kept Spark was not used, by observations at short intervals."""

    def __init__(self, keep_alive_seconds: float, clock: Callable[[], float], least_free_bytes: int) -> None:
        """`clock` returns seconds; Spark counts as used now. Below `least_free_bytes`, an unused Spark ends at once."""
        self._keep_alive_seconds = keep_alive_seconds
        self._clock = clock
        self._least_free_bytes = least_free_bytes
        self._last_use = clock()

    def is_over(self, was_used: bool, free_bytes: int | None) -> bool:
        """Whether Spark should end now; `was_used` says whether any command used it since the last call."""
        if was_used:
            self._last_use = self._clock()
            return False
        is_short = free_bytes is not None and free_bytes < self._least_free_bytes
        return is_short or self._clock() - self._last_use >= self._keep_alive_seconds
