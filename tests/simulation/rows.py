"""Rows of tables as readers see them, and change rows as a fold: all in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from arctic_runtime.model.properties import KIND, MERGED, PINNED_BASE, PINNED_HEAD, PINNED_MERGED
from arctic_runtime.model.version import decode_versions
from tests.simulation.lake import Catalog, Metadata, Pointers, Row, View

Rows = dict[Row, Row]
"""Key → row."""

Change = tuple[str, "Row | None", "Row | None"]
"""The action, the row after it, and the row before; a deleted row has none after it."""


class Marked(tuple[Any, ...]):
    """A change row that has in `arrival` the number of its event, by which dead letters are put in order."""

    arrival: int | None = None


class Folded(list[Any]):
    """Change rows with the ids of the events that were folded to them."""

    events: tuple[tuple[int, int], ...] = ()


def mark_rows(changes: Iterable[Change], arrivals: Mapping[Row, int], events: Iterable[tuple[int, int]]) -> Folded:
    """Gives each change row the number that `arrivals` has for its key, if any."""
    marked = Folded(Marked(change) for change in changes)
    marked.events = tuple(events)
    for change in marked:
        change.arrival = arrivals.get((change[1] or change[2])[:1])
    return marked


def diff_rows(old: Rows, new: Rows, kept: Iterable[Row] = ()) -> list[Change]:
    """Computes the change rows that turn the rows `old` into `new`.

    The keys `kept` have change rows also if nothing changes; that of a row which is not there has only its key.
    """
    changes: list[Change] = []
    keys = set(kept)
    for key in sorted({*old, *new, *keys}, key=repr):
        before, after = old.get(key), new.get(key)
        if after is None:
            changes.append(("delete", None, before or key))
        elif before is None:
            changes.append(("insert", after, None))
        elif before != after or key in keys:
            changes.append(("update", after, before))
    return changes


def key_rows(rows: Iterable[Row], width: int = 1) -> Rows:
    return {row[:width]: row for row in rows}


def apply_changes(rows: Rows, changes: Iterable[Change], width: int = 1) -> Rows:
    after = dict(rows)
    for _, new, old in changes:
        if old is not None:
            after.pop(old[:width], None)
        if new is not None:
            after[new[:width]] = new
    return after


def read_changes(catalog: Catalog, table: Metadata, snapshot: int, after: int, until: int) -> list[Change]:
    """Reads the change rows of a snapshot that were added after one sequence number, up to another, in their order."""
    found = table.find(snapshot)
    assert found is not None, f"{table.name}: snapshot {snapshot} is gone"
    rows: list[tuple[int, int, Change]] = [row for row in catalog.list_rows(found) if after < row[0] <= until]
    return [change for _, _, change in sorted(rows, key=lambda row: row[:2])]


def fold_until(catalog: Catalog, table: Metadata, until: int, snapshot: int | None = None) -> Rows:
    """The rows of a model at a sequence number, from the change rows of a snapshot, by default its newest."""
    head = table.current_snapshot_id if snapshot is None else snapshot
    return {} if head is None else apply_changes({}, read_changes(catalog, table, head, 0, until))


def read_base(catalog: Catalog, table: Metadata, snapshot: int) -> Rows:
    found = table.find(snapshot)
    assert found is not None, f"{table.name}: snapshot {snapshot} is gone"
    return key_rows(row for _, _, row in catalog.list_rows(found))


class Unreadable(Exception):
    """A reader could not read a table that exists."""


def read_as_readers(catalog: Catalog, pointers: Pointers, schema: str, name: str) -> tuple[Rows, int] | None:
    """Returns the rows that readers of a table see, and the sequence number of the change table that they show.

    None if there is no such table yet. Raises Unreadable if a snapshot or a file that it needs is gone.
    """
    pointer = pointers.get((schema, name))
    if pointer is None:
        return None
    try:
        if isinstance(pointer.what, View):
            return _read_view(catalog, pointers, pointer.what, schema, name)
        return _read_base_table(catalog, pointer.what)
    except (AssertionError, LookupError) as error:
        raise Unreadable(f"{schema}.{name}: {error}") from error
    except Exception as error:
        raise Unreadable(f"{schema}.{name}: {type(error).__name__} {error}") from error


def _read_view(catalog: Catalog, pointers: Pointers, view: View, schema: str, name: str) -> tuple[Rows, int]:
    base, changes = (pointers[schema, name + suffix].what for suffix in ("__base", "__changes"))
    assert isinstance(base, Metadata)
    assert isinstance(changes, Metadata)
    pins = {key: int(view.properties[key]) for key in (PINNED_BASE, PINNED_MERGED, PINNED_HEAD)}
    rows = read_base(catalog, base, pins[PINNED_BASE])
    head = changes.find(pins[PINNED_HEAD])
    if "start-snapshot-id" not in view.sql:
        # Such a view reads no change rows, so their snapshots may be gone.
        return rows, head.sequence_number if head else _find_merged(base, pins[PINNED_BASE])
    start = changes.find(pins[PINNED_MERGED])
    assert start is not None, "the first snapshot of the unmerged changes is gone"
    assert head is not None, "the last snapshot of the unmerged changes is gone"
    found = read_changes(catalog, changes, head.snapshot_id, start.sequence_number, head.sequence_number)
    return apply_changes(rows, found), head.sequence_number


def _find_merged(base: Metadata, snapshot: int | None) -> int:
    for one in base.walk(snapshot):
        if (text := one.summary[MERGED]) is not None:
            return decode_versions(text)["changes"].sequence
    raise AssertionError("the base says nowhere what it is merged to")


def _read_base_table(catalog: Catalog, table: Metadata) -> tuple[Rows, int]:
    assert table.properties.get(KIND) == "base"
    head = table.current_snapshot_id
    assert head is not None, "the base has no snapshot"
    return read_base(catalog, table, head), _find_merged(table, head)


def strip_key(rows: Rows) -> frozenset[Any]:
    return frozenset(rows.values())
