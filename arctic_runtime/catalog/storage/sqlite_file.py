"""Makes SQLAlchemy use only connections to the current file of an SQLite database, also after the file was replaced."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any


def follow_file(engine: Any, file: Path) -> None:
    """Sets up an SQLAlchemy engine to use only connections to the current `file`, and never to create the file.

    Without this, a connection continues to use a file that was moved away or replaced; and a connection that is opened
    while the file is missing creates an empty database in its place, and stays connected to it when the file is back.
    """
    from sqlalchemy import event
    from sqlalchemy.exc import DisconnectionError

    def check_file_exists(*_: object) -> None:
        if not file.exists():
            raise sqlite3.OperationalError(f"unable to open database file: there is no {file}")

    def record_file(_: object, record: Any) -> None:
        record.info["file"] = _get_identity(file)

    def check_same_file(_: object, record: Any, __: object) -> None:
        now = _get_identity(file)
        if now is None or record.info.setdefault("file", now) != now:
            raise DisconnectionError(f"{file} is another file by now")

    event.listen(engine, "do_connect", check_file_exists)
    event.listen(engine, "connect", record_file)
    event.listen(engine, "checkout", check_same_file)


def _get_identity(file: Path) -> tuple[int, int] | None:
    """Returns device and inode of a file; None if there is no such file."""
    try:
        file_status = file.stat()
    except OSError:
        return None
    return file_status.st_dev, file_status.st_ino
