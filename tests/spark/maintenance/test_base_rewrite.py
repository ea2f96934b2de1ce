"""The base written anew with its changes merged in: readers see no change, and what is done stays done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.files.compaction import RewriteBase, RewriteFiles
from arctic_runtime.spark.maintenance.compaction import Compacted, compact_table, plan_compaction
from arctic_runtime.spark.tables.steps import perform_step
from tests.crash.dying import dying
from tests.spark.tables.test_commits import once_before
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.files.compaction import FileGroup
    from arctic_runtime.model.state import TableState
    from arctic_runtime.model.table import Model

EVENTS = "`i.d` int, `re``gion` string, `Sort` int, v string, op string, lsn bigint"
SQL = "select `i.d`, `re``gion`, `Sort`, v, op, lsn from {changes(events)}"
NAMES = ("eu", "it's $1", None)


class Store:
    """A table merged on read, of change events, and the rows that it must hold."""

    def __init__(self, lake: Warehouse, keys: range = range(100), **config: Any) -> None:
        declared = {"primary_key": "i.d", "input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'"}
        excluded = {"exclude_columns": ["op", "lsn"], "compaction": "off", "merge": "on_read", "nodes": 4}
        self.lake = lake
        self.model = lake.model("m", SQL, **declared, **{**excluded, **config})
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.lsn = 0
        self.put(keys, "first")

    def put(self, keys: range | list[int], v: str, gone: tuple[int, ...] = ()) -> None:
        """One commit that brings these keys in, or moves them to another partition, and takes others away."""
        self.lsn += 1
        rows = {key: (key, NAMES[(key + self.lsn) % 3], None if key % 5 == 0 else -key * self.lsn, v) for key in keys}
        self.rows |= rows
        deleted = [(*self.rows.pop(key), "d", self.lsn) for key in gone]
        self.lake.append("events", [*[(*row, "u", self.lsn) for row in rows.values()], *deleted], EVENTS)
        self.lake.run(self.model)

    def compact(self) -> Compacted:
        return compact_table(self.lake.session_of(self.model), "full")

    def planned(self) -> RewriteBase:
        step = plan_compaction(self.lake.session_of(self.model, refuse), "full")[1].steps[0]
        assert isinstance(step, RewriteBase)
        return step

    def state(self) -> TableState:
        return self.lake.state(self.model)

    def nodes(self) -> tuple[FileGroup, ...]:
        files = observe_files(self.lake.reader, self.model.base)
        assert files is not None
        return files.file_groups

    def merged(self) -> bool:
        """Whether nothing waits to be merged, and the base alone has all rows."""
        state = self.state()
        assert state.base is not None
        assert state.changes is not None
        base = self.lake.spark.table(self.lake.sql_name("m__base")).collect()
        return state.base.merged == state.changes.newest and sorted(map(tuple, base), key=repr) == self.expected()

    def expected(self) -> list[tuple[Any, ...]]:
        return sorted(self.rows.values(), key=repr)

    @property
    def is_right(self) -> bool:
        return self.lake.rows(self.model) == self.expected() and self.lake.broken(self.model) == []


def in_parts(lake: Warehouse, parts: int) -> Warehouse:
    """Where bases are rewritten in up to so many parts, however small they are."""
    return lake.under(base_rewrite={"part_bytes": 1, "parts": parts})


def ordered(model: Model, lake: Warehouse) -> bool:
    """Whether the rows of each file are sorted by the sort key, nulls first."""
    rows = lake.spark.table(lake.sql_name("m__base")).select("_file", "_pos", "Sort", "`i.d`").collect()
    placed = sorted((row[0], row[1], row[2] is not None, row[2] or 0, row[3]) for row in rows)
    return placed == sorted(placed, key=lambda row: (row[0], *row[2:]))


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "config",
    [
        {"sort_key": ["Sort"], "partition_by": ["`re``gion`"]},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"sort_key": ["Sort"]}, marks=pytest.mark.slow),
        pytest.param({"partition_by": ["`re``gion`"], "changelog": "input"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_changes_are_merged_in_one_pass_and_readers_see_no_change(lake: Warehouse, config: dict[str, Any]) -> None:
    store = Store(lake, **config)
    store.put([1, 2, 3, 150], "second", gone=(4, 20))
    store.put([3, 4, 150, 160], "third", gone=(2, 21))
    before = len(lake.state(store.model).base.parents)  # type: ignore[union-attr]
    done = store.compact()
    assert [(type(step), step.table) for step in done.steps] == [
        (RewriteBase, store.model.base),
        (RewriteFiles, store.model.table.changes),
    ]
    assert done.plan.steps == ()
    assert len(lake.state(store.model).base.parents) == before + 1  # type: ignore[union-attr]
    assert [len(node.files) for node in store.nodes()] == [1] * len(store.nodes())
    assert not any(file.deleted for node in store.nodes() for file in node.files)
    assert store.merged()
    assert store.is_right
    assert lake.branches(store.model) == set()
    if "sort_key" in config:
        assert ordered(store.model, lake)
    assert lake.run(store.model, refuse).mode == "unchanged"
    store.put([5, 161], "fourth", gone=(3,))
    assert store.is_right


@pytest.mark.slow
def test_an_interrupted_merge_continues_where_it_was_and_up_to_the_version_that_it_began_with(lake: Warehouse) -> None:
    """The changes that come meanwhile stay unmerged, and readers see them."""
    lake = in_parts(lake, 4)
    store = Store(lake)
    store.put([1, 2, 3, 150, 151, 152, 153, 154], "second", gone=(4, 20, 30, 31))
    first = store.planned()
    assert len(first.ranges) > 2
    session = lake.environment.new_session()
    life = dying(
        3, lambda: perform_step(first, lake.session_of(store.model, lambda: session).build_context(store.state()))
    )
    assert life is not None
    assert store.is_right
    store.put([3, 160], "third", gone=(150,))
    assert store.is_right
    again = store.planned()
    assert (again.end, again.done) == (first.end, first.ranges[:2])
    written: list[str] = []
    perform_step(again, replace(lake.session_of(store.model).build_context(store.state()), tell=written.append))
    assert [line.split()[1] for line in written] == [str(part) for part in first.ranges[2:]]
    state = store.state()
    assert state.base is not None
    assert state.base.merged == first.end
    assert [len(node.files) for node in store.nodes()] == [1] * len(store.nodes())
    assert not store.merged()
    assert store.is_right
    store.compact()
    assert store.merged()
    assert store.is_right
    assert lake.branches(store.model) == set()


@pytest.mark.parametrize("sorts", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_rows_come_into_nodes_that_had_none_and_deletion_vectors_go(lake: Warehouse, sorts: bool) -> None:
    """Also where changes are more than the rows, so that these are what is held, or where they are too many to hold."""
    lake = lake.under(merge={"overwritten_base_rows": 0, "overwritten_base_values": 0, "overwritten_share": 100.0})
    if sorts:
        lake = lake.under(base_rewrite={"hashed_change_bytes": 0})
    store = Store(lake, keys=range(3), nodes=8)
    store.put([1, 2], "second", gone=(0,))
    assert any(file.deleted for node in store.nodes() for file in node.files)
    had = len(store.nodes())
    store.lake = lake.under(merge={"unmerged_share": 100.0})
    store.put([2, *range(3, 40)], "third", gone=(1,))
    step = store.planned()
    assert step.meeting == ("sort" if sorts else "hash")
    perform_step(step, lake.session_of(store.model).build_context(store.state()))
    assert had < len(store.nodes()) == sum(len(node.files) for node in store.nodes())
    assert not any(file.deleted for node in store.nodes() for file in node.files)
    assert store.merged()
    assert store.is_right


@pytest.mark.parametrize("parts", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_merge_loses_against_one_that_comes_between_and_leaves_what_that_one_made(
    lake: Warehouse, parts: int
) -> None:
    """In one commit, and on a branch."""
    lake = in_parts(lake, parts) if parts > 1 else lake
    store = Store(lake)
    store.put([1, 2, 150], "second", gone=(4, 20, 21, 22))
    step, state = store.planned(), store.state()
    assert (len(step.ranges) > 1) == (parts > 1)
    other = lake.session_of(store.model)
    merge = once_before("base.rewrite.write", lambda: other.reconcile_until_done(other.observe_state(), fold=True))
    with merge, pytest.raises(CommitConflict):
        perform_step(step, lake.session_of(store.model).build_context(state))
    assert store.merged()
    assert store.is_right
    assert lake.branches(store.model) == set()


@pytest.mark.slow
def test_two_that_merge_the_same_at_a_time_do_it_once(lake: Warehouse) -> None:
    """The second starts when the first has written its last part, and is through before that is published."""
    lake = in_parts(lake, 2)
    store = Store(lake)
    store.put([1, 2, 150], "second", gone=(4, 20, 21, 22))
    step, state = store.planned(), store.state()
    assert len(step.ranges) > 1
    session = lake.environment.new_session()
    other = lake.session_of(store.model, lambda: session)
    written: list[str] = []
    second = lambda: perform_step(step, replace(other.build_context(state), tell=written.append))  # noqa: E731
    with once_before("commit.publish", second), pytest.raises(CommitConflict):
        perform_step(step, lake.session_of(store.model).build_context(state))
    assert [line.split()[1] for line in written] == [str(part) for part in step.ranges]
    assert store.merged()
    lake.session_of(store.model).reconcile_until_done(store.state())
    assert store.is_right
    assert lake.branches(store.model) == set()
