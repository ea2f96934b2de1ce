"""A catalog's file that is moved away, replaced, or locked, while a process uses it."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.storage.sqlite_file import SqliteFile
from arctic_runtime.errors import CatalogError


@pytest.fixture
def shop(writing: Any, tmp_path: Path) -> Any:
    warehouse = writing.warehouse(tmp_path)
    warehouse.create("a")
    return warehouse


def moved(file: Path, to: Path) -> None:
    for end in ("", "-wal", "-shm"):
        part = Path(f"{file}{end}")
        if part.exists():
            part.replace(f"{to}{end}")


def answers(shop: Any) -> set[str]:
    """What several threads are told that ask at once, each by a connection of its own."""

    def ask(_: int) -> str:
        try:
            return " ".join(shop.reader.list_relations("dwd"))
        except CatalogError:
            return "no answer"

    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(ask, range(24)))


def test_a_catalog_that_is_away_does_not_answer_and_does_when_it_is_back(shop: Any, tmp_path: Path) -> None:
    file, elsewhere = shop.profile.sqlite_file, tmp_path / "elsewhere"
    assert answers(shop) == {"a"}
    moved(file, elsewhere)
    assert answers(shop) == {"no answer"}
    assert not file.exists()
    moved(elsewhere, file)
    assert answers(shop) == {"a"}
    shop.append("a", [(1, "x")])


def test_a_catalog_that_is_replaced_by_a_copy_is_read_as_the_copy_is(shop: Any, tmp_path: Path) -> None:
    file, copy = shop.profile.sqlite_file, tmp_path / "copy"
    for end in ("", "-wal"):
        shutil.copy(f"{file}{end}", f"{copy}{end}")
    shop.create("b")
    assert answers(shop) == {"a b"}
    moved(copy, file)
    assert answers(shop) == {"a"}


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


def test_a_locked_file_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    write_rows(path, "a")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            read_rows(SqliteFile(path, 0))
        writer.rollback()
    assert read_rows(SqliteFile(path, 0)) == ["a"]
