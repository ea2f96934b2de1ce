"""The pointers of a catalog in a database: one query reads all of them, and one transaction publishes a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arctic_runtime.catalog.branch.catalog_pointers import BranchScope, Pointer, PointerChange
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName


class DatabasePointers:
    """Reads and changes pointers in the database of a catalog; see `CatalogPointers`."""

    writes_metadata = False

    def __init__(self, reader: CatalogReader) -> None:
        self._reader = reader

    def list_pointers(self, _scope: BranchScope) -> list[Pointer]:
        """Lists all pointers of the catalog, those in the scope and others: all were current at the same time."""
        return self._reader.ask_catalog("read its tables for a branch", self._reader.database.list_pointers)

    def list_namespaces(self, _scope: BranchScope) -> Mapping[str, Mapping[str, str]]:
        return self._reader.ask_catalog("read its namespaces for a branch", self._reader.database.list_namespaces)

    def build_file_properties(self) -> dict[str, str]:
        return dict(self._reader.profile.catalog_properties)

    def find_pointer(self, table: TableName) -> Pointer | None:
        return self._reader.database.find_pointer(table)

    def plan_steps(self, changes: Sequence[PointerChange]) -> list[list[PointerChange]]:
        return [list(changes)] if changes else []

    def list_conflicts(self, _changes: Sequence[PointerChange]) -> list[TableName]:
        """Returns an empty list: the transaction of the only step finds them."""
        return []

    def apply_changes(self, changes: Sequence[PointerChange]) -> list[TableName]:
        return self._reader.database.apply_changes(changes)
