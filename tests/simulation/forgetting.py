"""`arctic forget` over the simulated catalog: the runtime's own steps, with rows that Python finds and deletes.

The request, its stored keys, the refreshes of the tables below, the marks, rewrites, records, expiry and the scan of
the files are the runtime's. What Spark does with rows is modelled: to find keys, to delete rows by deletion vectors,
and to rewrite the files that hold these. Dead letters are left out, as no event becomes one here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from arctic_runtime.catalog.storage.disk_files import DiskFile
from arctic_runtime.effects import perform_effect
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.model.forgetting import Certificate, Forget
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import FORGOTTEN_KEYS_KIND, KIND
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.forget import downstream, erase_events, erase_rows, forgetting, key_search, purge, trace
from arctic_runtime.spark.forget.forgetting import Forgetting
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.delete import RowMatch
from arctic_runtime.spark.tables.rows.bounds import EVERYWHERE
from arctic_runtime.spark.tables.table_session import TableSession
from tests.simulation import spark as modelled
from tests.simulation.compute import list_images
from tests.simulation.lake import FILE_BYTES, Catalog, Name, Row, Snapshot
from tests.simulation.rows import Change, fold_until
from tests.simulation.runtime import ENGINE, Pool, Reader, Replacement, SimulatedRefresh


class Frame:
    """Rows or keys in the place of a DataFrame, as far as forgetting handles them itself."""

    columns = ("key",)

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(dict.fromkeys(rows))
        self.num_rows = len(self.rows)

    def count(self) -> int:
        return len(self.rows)

    def isEmpty(self) -> bool:  # noqa: N802 - PySpark's name
        return not self.rows

    def limit(self, count: int) -> Frame:
        return Frame(self.rows[:count])

    def unionByName(self, other: Frame) -> Frame:  # noqa: N802 - PySpark's name
        return Frame([*self.rows, *other.rows])

    def join(self, other: Frame, _: object, how: str) -> Frame:
        return Frame(row for row in self.rows if (row in other.rows) == (how == "left_semi"))

    def _return_self(self, *_: object) -> Frame:
        return self

    distinct = persist = unpersist = coalesce = toArrow = _return_self  # noqa: N815 - PySpark's names

    def select(self, *_: object) -> Frame:
        return Frame(row[:1] for row in self.rows)


def run_forget(
    reader: Reader, models: Sequence[Model], root: Model, key: int, tell: Callable[[str], None]
) -> Certificate:
    """Forgets the row with this key, and all that was made of it."""
    request = Forget((str(key),), None, drop_savepoints=False)
    return Forgetting(root, models, reader, Pool(reader.lake).take_session, request, tell).run_forget()  # type: ignore[arg-type]


# Keys


def parse_given_keys(_: object, __: Model, ___: TableState, values: Sequence[str]) -> Frame:
    return Frame((int(value),) for value in values)


def list_keys_ever(spark: Any, model: Model, _: TableState, among: Any = None) -> Frame:
    keys = {row[:1] for row in list_images(spark.lake, model.table)}
    return Frame(sorted(keys if among is None else keys & set(among.rows.rows), key=repr))


def list_keys_changed_after(spark: Any, model: Model, _: TableState, sequence: int) -> Frame:
    rows = spark.lake.list_rows(_find_head(spark.lake, _name(model.table.changes)))
    return Frame((after or before)[:1] for number, _, (action, after, before) in rows if number > sequence and before)


def list_keys_made_of(
    session: TableSession, state: TableState, upstreams: Upstreams, forgotten: Mapping[TableName, Any]
) -> Frame:
    """Finds the keys by the runtime's own tree of operators, in DuckDB."""
    spark: Any = session.spark()
    try:
        derived = trace.derive_touched_tree(session.model, upstreams, frozenset(forgotten))
    except NotMaintained:
        return list_keys_ever(spark, session.model, state)
    if derived is None:
        return Frame(())
    tree, key = derived
    keys = {table: set(lookup.rows.rows) for table, lookup in forgotten.items()}
    found = [ENGINE.list_touched(spark.lake, tree, key, keys, ever) for ever in (False, True)]
    return Frame(sorted(found[0] | found[1], key=repr))


def collect_lookup_keys(_: TableSession, __: TableState, keys: Frame) -> tuple[Any, int]:
    return SimpleNamespace(rows=keys, few=True, near=EVERYWHERE), keys.count()


def read_keys(spark: Any, table: TableName) -> Frame:
    head = _find_head(spark.lake, _name(table.forget_keys_name))
    return Frame(row for _, _, row in spark.lake.list_rows(head))


def add_keys(_: object, reader: Reader, table: TableName, keys: Frame) -> None:
    """Adds keys to those that are stored, in one commit that fails if another one comes first."""
    lake, name = reader.lake, _name(table.forget_keys_name)
    stored = lake.find_table(name)
    head = stored.find(stored.current_snapshot_id) if stored is not None else None
    rows = Frame([*keys.rows, *(row for _, _, row in lake.list_rows(head))]) if head is not None else keys
    expected = head.snapshot_id if head is not None else None

    def write() -> None:
        with modelled.as_spark_error():
            lake.replace_table(name, {KIND: FORGOTTEN_KEYS_KIND}, rows.rows, expected)

    perform_effect("forget.keys", write, f"write {table.forget_keys_name}", SPARK)


# Rows


def read_rows_now(session: TableSession, _: TableState, keys: Any) -> Frame:
    lake = _get_lake(session)
    rows = fold_until(lake, lake.get_table(_name(session.model.table.changes)), 2**62)
    return Frame(rows[key] for key in keys.rows.rows if key in rows)


def diff_states(_: Frame, old: Frame, __: object) -> list[Change]:
    return [("delete", None, row) for row in old.rows]


def build_republished_changes(session: TableSession, state: TableState, keys: Any, _: object) -> list[Change]:
    return [("update", row, row) for row in read_rows_now(session, state, keys).rows]


def delete_matching(effect: str, context: Context, branch: tuple[str, ...], match: RowMatch) -> None:
    """Deletes change rows by deletion vectors, as one commit to a branch."""
    lake: Catalog = context.spark.lake
    since = next(int(found[1]) for text in match.where if (found := re.search(r"< (\d+)$", str(text))))
    sought: Any = match.sought

    def delete() -> None:
        head = _find_head(lake, (branch[1], branch[2]))
        gone: dict[str, frozenset[int]] = {}
        for file in lake.read_files(head.files):
            numbers = file.sequences or (file.sequence,) * len(file.rows)
            places = [
                place
                for place, (row, number) in enumerate(zip(file.rows, numbers, strict=True))
                if number < since and _get_key(row) in sought.rows
            ]
            gone[file.path] = frozenset(places)
        context.spark.commit(branch, "overwrite", (), {}, deleted=gone)

    perform_effect(effect, delete, f"delete from {context.model.table.changes}", SPARK)


def rewrite_deleted(context: Context, table: TableName, branch: tuple[str, ...], _: object) -> purge.Rewritten:
    """Rewrites the files with deleted rows, each without them; its rows keep the numbers of their commits."""
    lake: Catalog = context.spark.lake

    def rewrite() -> int:
        head = _find_tip(lake, _name(table), branch[3].removeprefix("branch_"))
        written = []
        for file in lake.read_files([path for path in head.files if head.deleted.get(path)]):
            left = [place for place in range(len(file.rows)) if place not in head.deleted[file.path]]
            numbers = file.sequences or (file.sequence,) * len(file.rows)
            if left:
                rows = [file.rows[place] for place in left]
                written.append(lake.write_file(_name(table), rows, tuple(numbers[place] for place in left)))
        removed = frozenset(path for path in head.files if head.deleted.get(path))
        if removed:
            context.spark.commit(branch, "replace", tuple(written), {}, removed)
        return len(removed)

    count = perform_effect("forget.rewrite", rewrite, f"rewrite files of {table}", SPARK)
    return purge.Rewritten(count, count * FILE_BYTES)


def rewrite_manifests(spark: Any, table: TableName) -> None:
    def rewrite() -> None:
        with modelled.as_spark_error():
            spark.lake.commit(_name(table), "main", "replace", (), {})

    perform_effect("forget.manifests", rewrite, f"rewrite manifests of {table}", SPARK)


# Files


@dataclass
class DiskFiles:
    """The data files of a table, with those that no snapshot has."""

    reader: Reader
    name: TableName
    key: Sequence[str]

    def __post_init__(self) -> None:
        self.table = self.reader.load_table(self.name.schema, self.name.name)

    def on_disk(self) -> list[DiskFile]:
        known = {path for one in self.table.metadata.snapshots for path in one.files}
        folder = f"{'.'.join(_name(self.name))}/"
        return [
            DiskFile(path, FILE_BYTES, 0 if path in known else round(1000 * file.created), path in known)
            for path, file in self.reader.lake.files.items()
            if path.startswith(folder)
        ]

    def count_rows_under(self, path: str, keys: Frame) -> int:
        file = self.reader.lake.files.get(path)
        return sum(_get_key(row) in keys.rows for row in file.rows) if file is not None else 0

    def list_snapshot_files(self, snapshot: int | None = None) -> dict[str, int]:
        found = self.table.current_snapshot() if snapshot is None else self.table.snapshot_by_id(snapshot)
        return dict.fromkeys(found.files if found is not None else (), FILE_BYTES)

    def find_tagged_snapshot(self, tag: str) -> int | None:
        ref = self.table.metadata.refs.get(tag)
        return None if ref is None else ref.snapshot_id

    def remove_file(self, path: str) -> None:
        self.reader.lake.files.pop(path, None)


def count_live_rows(session: TableSession, part: Any, lookup: Any) -> tuple[int, int]:
    lake = _get_lake(session)
    found = lake.get_table(_name(part.table)).find(part.snapshot)
    assert found is not None
    numbers = [number for number, _, row in lake.list_rows(found) if _get_key(row) in lookup.rows.rows]
    return len(numbers), sum(number < part.since for number in numbers)


def _get_key(row: Any) -> Row:
    """Returns the key of a row of a base, or of a change row."""
    is_change = isinstance(row[-1], tuple) or isinstance(row[-2], tuple)
    shown: Row = (row[1] or row[2]) if is_change else row
    return shown[:1]


def _find_head(lake: Catalog, name: Name) -> Snapshot:
    return _find_tip(lake, name, "main")


def _find_tip(lake: Catalog, name: Name, branch: str) -> Snapshot:
    table = lake.get_table(name)
    ref = table.refs.get(branch, table.refs["main"])
    found = table.find(ref.snapshot_id)
    assert found is not None
    return found


def _get_lake(session: TableSession) -> Catalog:
    reader: Any = session.reader
    lake: Catalog = reader.lake
    return lake


def _name(table: TableName) -> Name:
    return (table.schema, table.name)


REPLACEMENTS: tuple[Replacement, ...] = (
    (downstream, "Refresh", SimulatedRefresh),
    (erase_events, "drop_dead_letters", lambda *_: erase_events.ErasedDeadLetters()),
    (trace, "parse_given_keys", parse_given_keys),
    (trace, "list_keys_ever", list_keys_ever),
    (trace, "list_keys_changed_after", list_keys_changed_after),
    (trace, "list_keys_made_of", list_keys_made_of),
    (trace, "hold_in_driver", lambda _, rows: rows),
    *((module, "collect_lookup_keys", collect_lookup_keys) for module in (erase_rows, forgetting, key_search)),
    *((module, "read_keys", read_keys) for module in (erase_rows, forgetting, key_search)),
    *((module, "read_rows_now", read_rows_now) for module in (erase_rows, forgetting)),
    (erase_rows, "_add_keys", add_keys),
    (erase_rows, "as_key", lambda _: ()),
    (erase_rows, "diff_states", diff_states),
    (erase_rows, "publish_changes", modelled.publish_changes),
    (erase_rows, "_build_republished_changes", build_republished_changes),
    (erase_rows, "_run_side_by_side", lambda _, actions: [action() for action in actions]),
    (erase_rows, "has_removed_entries", lambda *_: True),
    (erase_rows, "rewrite_manifests", rewrite_manifests),
    (purge, "delete_matching", delete_matching),
    (purge, "_rewrite_deleted", rewrite_deleted),
    (purge, "DiskFiles", DiskFiles),
    (purge, "_count_live_rows", count_live_rows),
)
"""The parts of forgetting that are modelled."""
