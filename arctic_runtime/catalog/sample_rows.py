"""Reads a few rows of a table for people, without Spark: the first that are not deleted, in the order of its files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from arctic_runtime.catalog.change_rows.log_files import LogFile, LogReader
from arctic_runtime.catalog.change_rows.projection import build_arrow_fields
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.columns import COMMIT_VERSION
from arctic_runtime.model.names import TableName


def read_sample_rows(reader: CatalogReader, name: TableName, most: int) -> list[dict[str, Any]]:
    """Reads at most `most` rows of the Iceberg table `name`, each as values by column; empty without a snapshot.

    At the base of an arctic model, changes that are not merged yet are missing. Reads no more files than needed, and of
    a file no more row groups. Raises ConfigError if a column has a type that only Spark can read.
    """
    rows: list[dict[str, Any]] = []
    for batch in _iterate_rows(reader, name, most):
        rows += batch[: most - len(rows)]
        if len(rows) >= most:
            break
    return rows


def _iterate_rows(reader: CatalogReader, name: TableName, most: int) -> Iterator[list[dict[str, Any]]]:
    table = reader.load_table(name.schema, name.name)
    if table.current_snapshot() is None:
        return
    wanted = table.schema().as_struct()
    files = LogReader(table, wanted, build_arrow_fields(wanted), most)
    for task in table.scan().plan_files():
        file = LogFile(task.file.file_path, 0, tuple(task.delete_files))
        for batch in files.read_rows(file, 0, sys.maxsize):
            yield batch.drop_columns([COMMIT_VERSION]).to_pylist()
