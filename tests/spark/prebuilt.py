"""Namespaces that are built once, and brought back to what they were then: files are copied, catalog rows replaced."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.spark.warehouse import Warehouse

ROWS = "from iceberg_tables where table_namespace = ?"


@dataclass(frozen=True)
class Prebuilt:
    """A namespace of an embedded warehouse as it was built: a copy of its files, and its rows in the catalog."""

    lake: Warehouse
    copy: Path
    rows: tuple[tuple[str | None, ...], ...]

    @classmethod
    def of(cls, lake: Warehouse, build: Callable[[Warehouse], object], copies: Path) -> Prebuilt:
        build(lake)
        folder, copy = folder_of(lake), copies / lake.namespace
        folder.mkdir(exist_ok=True)
        shutil.copytree(folder, copy)
        with closing(connection(lake)) as catalog:
            rows = catalog.execute(f"select * {ROWS}", (lake.namespace,)).fetchall()
        return cls(lake, copy, tuple(rows))

    def restore(self) -> Warehouse:
        """Brings the namespace back, whatever happened to it since."""
        shutil.rmtree(folder_of(self.lake), ignore_errors=True)
        shutil.copytree(self.copy, folder_of(self.lake))
        with closing(connection(self.lake)) as catalog, catalog:
            catalog.execute(f"delete {ROWS}", (self.lake.namespace,))
            for row in self.rows:
                catalog.execute(f"insert into iceberg_tables values ({', '.join('?' * len(row))})", row)
        return self.lake


def folder_of(lake: Warehouse) -> Path:
    return Path(lake.environment.profile.catalog_properties["warehouse"].removeprefix("file:")) / lake.namespace


def connection(lake: Warehouse) -> sqlite3.Connection:
    file = lake.environment.profile.sqlite_file
    assert file is not None
    return sqlite3.connect(file, timeout=60)
