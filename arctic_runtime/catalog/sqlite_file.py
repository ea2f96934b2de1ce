"""Connections to an SQLite database that follow its file: one that was moved away, or replaced, is not used further."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any


def follow_file(engine: Any, file: Path) -> None:
    """Makes an engine of SQLAlchemy use only connections to the file that is there now, and create none.

    Without this a connection continues with a file that nobody sees any more. One that is opened while the file is away
    makes an empty database in its place, and stays connected to that when the file is back.
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
    """Device and number of a file; None if there is none."""
    try:
        file_status = file.stat()
    except OSError:
        return None
    return file_status.st_dev, file_status.st_ino
