"""The SQLite file of a catalog is read as it is now: never created, and followed if it is replaced."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from arctic_runtime.catalog.storage.sqlite_file import SqliteFile


def write_rows(file: Path, *rows: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("create table if not exists names (name text)")
        connection.executemany("insert into names values (?)", [(row,) for row in rows])


def read_rows(file: SqliteFile) -> list[str]:
    return [name for (name,) in file.select("select name from names where name <> :other order by name", {"other": ""})]


def test_a_file_is_read_from_any_thread_and_with_what_others_write(tmp_path: Path) -> None:
    path = tmp_path / "a b?#%20.db"
    write_rows(path, "a")
    file = SqliteFile(path, 1)
    assert read_rows(file) == ["a"]
    write_rows(path, "b")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read_rows, [file] * 8)) == [["a", "b"]] * 8


def test_a_file_that_is_replaced_is_read_anew_and_one_that_is_gone_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    write_rows(path, "old")
    file = SqliteFile(path, 1)
    assert read_rows(file) == ["old"]
    path.rename(tmp_path / "moved.db")
    with pytest.raises(sqlite3.OperationalError, match=r"there is no .*catalog\.db"):
        read_rows(file)
    assert not path.exists()
    write_rows(path, "new")
    assert read_rows(file) == ["new"]


def test_a_locked_file_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    write_rows(path, "a")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            read_rows(SqliteFile(path, 0))
        writer.rollback()
    assert read_rows(SqliteFile(path, 0)) == ["a"]
