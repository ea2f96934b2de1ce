"""Records which commands use a kept server, so that it ends only if none does.

A command holds the lock of a file of its own as long as it uses the server, and the system releases the lock however
the command ends. Whoever joins, replaces or ends the server does so at the door, a lock that one process holds at a
time: so no command joins a server that is about to end.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from arctic_runtime.errors import ConfigError
from arctic_runtime.thresholds import EngineThresholds

_USES = "uses"
_DOOR = "door"


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
