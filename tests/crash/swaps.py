"""The embedded catalog as one that changes a table at a time, so that a publication has several steps and a record."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch
from arctic_runtime.catalog.branch.catalog_pointers import Pointer, PointerChange
from arctic_runtime.catalog.branch.table_swaps import TableSwaps
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile

if TYPE_CHECKING:
    from pyiceberg.table import Table


class Swaps(TableSwaps):
    """Pointers in a database that are compared and changed one by one."""

    def _find_file(self, table: TableName) -> str | None:
        pointer = self._reader.database.find_pointer(table)
        return None if pointer is None else pointer.file

    def _register_table(self, table: Table) -> None:
        self._catalog.register_table(table.name(), table.metadata_location)

    def _swap_metadata(self, table: Table, expected: str) -> bool:
        name = TableName(self._reader.profile.catalog, *table.name())
        change = PointerChange(name, *(Pointer(name, "TABLE", file) for file in (expected, table.metadata_location)))
        return not self._reader.database.apply_changes([change])


class PlainReader(CatalogReader):
    """Reads a catalog in a database as if it were in none."""

    @property
    def is_database(self) -> bool:
        return False


class SwappedBranch(CatalogBranch):
    """A branch that is published one table after another."""

    def __init__(self, origin: Profile, file: Path) -> None:
        super().__init__(origin, file)
        self.origin = PlainReader(origin)

    @cached_property
    def _catalog(self) -> Swaps:
        return Swaps(self.origin)
