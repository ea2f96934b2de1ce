"""Counts the rows that loads of tables have read so far."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace

from arctic_runtime.model.sources.ingestion import LoadProgress, Progress


class LoadCounts:
    """The tables of which a load has not ended, with their rows so far; may be used by several threads."""

    def __init__(self) -> None:
        self.loading: Mapping[str, LoadProgress] = {}
        self._complete: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def begin_load(self, tables: Collection[str], estimates: Mapping[str, int], progress: Progress) -> None:
        """Adds `tables` without rows; `estimates` has their rows at the source.

        `progress` is that before the load.
        """
        begun = {
            table: LoadProgress(0, estimates.get(table), progress.get_table_progress(table).as_of) for table in tables
        }
        with self._lock:
            self.loading = {**self.loading, **begun}
            self._complete -= begun.keys()

    def restart_load(self, tables: Collection[str]) -> None:
        """Sets the rows of `tables` to 0, since a load reads them again."""
        with self._lock:
            self.loading = {
                table: replace(load, rows=0) if table in tables else load for table, load in self.loading.items()
            }
            self._complete -= frozenset(tables)

    def add_rows(self, rows: Mapping[str, int], is_snapshot: bool) -> None:
        """Adds the `rows` of a batch by table; unless `is_snapshot`, it is the last batch with rows of the load."""
        with self._lock:
            counted = {table: rows.get(table, 0) for table in self.loading if table not in self._complete}
            self.loading = {
                table: replace(load, rows=load.rows + counted.get(table, 0)) for table, load in self.loading.items()
            }
            if not is_snapshot:
                self._complete |= rows.keys()

    def end_load(self, tables: Collection[str]) -> None:
        """Removes `tables`, whose load has ended."""
        with self._lock:
            self.loading = {table: load for table, load in self.loading.items() if table not in tables}
            self._complete -= frozenset(tables)
