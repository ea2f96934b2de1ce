"""Errors of a catalog in a file: they say what to do about the disk."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.catalog_calls import CatalogCalls
from arctic_runtime.errors import CatalogError
from arctic_runtime.profile import Profile


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("database or disk is full", "The disk is full: make space"),
        ("disk I/O error", "Is the disk full? Make space"),
        ("attempt to write a readonly database", "The warehouse is read-only here"),
    ],
)
def test_a_catalog_that_its_disk_keeps_from_answering_says_what_to_do(tmp_path: Path, text: str, advice: str) -> None:
    def fail() -> Any:
        raise sqlite3.OperationalError(text)

    with pytest.raises(CatalogError) as raised:
        CatalogCalls(Profile.for_embedded(tmp_path)).ask_catalog("list dwd", fail)
    assert f"could not list dwd: {text}. {advice}" in str(raised.value)
