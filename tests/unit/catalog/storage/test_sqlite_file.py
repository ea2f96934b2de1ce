"""A catalog's file that is moved away, or replaced, while a process uses it."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

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
