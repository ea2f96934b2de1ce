"""Data classes for the pointers of a catalog, which say what metadata file of a table or view is current."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from arctic_runtime.model.names import CHANGES_SUFFIX, TableName


@dataclass(frozen=True)
class Pointer:
    """The current metadata file of a table or view; `kind` is `TABLE` or `VIEW`, as in an Iceberg JDBC catalog."""

    table: TableName
    kind: str
    file: str


@dataclass(frozen=True)
class PointerChange:
    """A table or view whose pointer differs between a branch and the catalog from which the branch was made.

    `before` is its pointer when the branch was made, or None if it did not exist; `after` is its pointer on the branch,
    or None if it was dropped there.
    """

    table: TableName
    before: Pointer | None
    after: Pointer | None


def sort_changes(changes: Iterable[PointerChange], places: Mapping[TableName, int]) -> list[PointerChange]:
    """Sorts changes in the order in which runs would have committed them.

    `places` are those of tables in the order of the graph; what has none comes first. At one place, change tables come
    before other tables, and these before views, which pin versions of the tables.
    """

    def get_key(change: PointerChange) -> tuple[int, bool, bool, TableName]:
        table, pointer = change.table, change.after or change.before
        is_view = pointer is not None and pointer.kind != "TABLE"
        return places.get(table, -1), is_view, not table.name.endswith(CHANGES_SUFFIX), table

    return sorted(changes, key=get_key)
