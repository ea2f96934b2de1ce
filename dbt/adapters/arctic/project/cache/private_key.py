"""The key of this user by which digests are made, so that nobody who has a digest can try out secrets with it."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from arctic_runtime.spark.engine.java.state_directory import get_state_directory

_FILE = "project-key"
_BYTES = 32


def read_private_key() -> bytes | None:
    """Reads the key; None if there is none that only this user can read."""
    try:
        with (get_state_directory() / _FILE).open("rb") as stream:
            stat, key = os.fstat(stream.fileno()), stream.read(_BYTES + 1)
    except OSError:
        return None
    is_private = stat.st_uid == os.getuid() and not stat.st_mode & 0o077
    return key if is_private and len(key) == _BYTES else None


def create_private_key() -> bytes:
    """Returns the key, which is made if there is none; raises OSError if it can't be written."""
    known = read_private_key()
    if known is not None:
        return known
    folder = get_state_directory()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(_BYTES)
    write_atomically(folder / _FILE, key)
    return key


def write_atomically(file: Path, content: bytes) -> None:
    """Writes a file that only this user can read; others see the old content, or all of the new one."""
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
        written = Path(folder) / file.name
        written.touch(mode=0o600)
        written.write_bytes(content)
        written.replace(file)
