"""Reads the SQLite file of a catalog without the libraries that write it; notices if the file was replaced."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class SqliteFile:
    """An SQLite file that is only read, and never created; safe to share between threads."""

    def __init__(self, file: Path, lock_wait_seconds: float) -> None:
        self._file = file
        self._lock_wait_seconds = lock_wait_seconds
        self._reading = threading.Lock()
        self._opened: tuple[tuple[int, int], sqlite3.Connection] | None = None

    def select(self, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Returns the rows of a query, whose parameters `:name` have these values; raises errors of `sqlite3`."""
        with self._reading:
            return self._connect().execute(query, values).fetchall()

    def _connect(self) -> sqlite3.Connection:
        """Returns a connection to the file that has the path now, which may be another one than before."""
        identity = get_identity(self._file)
        if identity is None:
            raise sqlite3.OperationalError(f"unable to open database file: there is no {self._file}")
        if self._opened is not None and self._opened[0] == identity:
            return self._opened[1]
        if self._opened is not None:
            self._opened[1].close()
        # mode=rw: SQLite would create an empty database in the place of a file that is gone by now.
        address = f"{self._file.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(address, self._lock_wait_seconds, check_same_thread=False, uri=True)
        self._opened = identity, connection
        return connection


def get_identity(file: Path) -> tuple[int, int] | None:
    """Returns device and inode of a file; None if there is no such file."""
    try:
        file_status = file.stat()
    except OSError:
        return None
    return file_status.st_dev, file_status.st_ino
