"""Commits happen once and only onto what was observed: races, locks, lost answers and what dead runs left behind."""

from __future__ import annotations

import datetime
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.effects import Failpoint, set_failpoint
from arctic_runtime.errors import CatalogError, CommitConflict, CommitUnknown
from arctic_runtime.model.properties import ATTEMPT
from arctic_runtime.model.refs import BranchState
from arctic_runtime.model.step import AppendChanges, MergeBase
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.engine.jobs import Parallel, override_settings
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables import append as appending
from arctic_runtime.spark.tables import commit, merge, table_session
from arctic_runtime.spark.tables.commit import build_summary_settings
from arctic_runtime.spark.tables.delete import RowMatch, build_key_conditions, delete_matching
from arctic_runtime.spark.tables.rows.frames import as_key
from arctic_runtime.thresholds import EngineThresholds
from tests.spark.warehouse import Warehouse, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.model.table import Model
    from arctic_runtime.refresh_planner import Outcome

EVENTS = "id int, v string, lsn bigint"


def events_model(lake: Warehouse, **config: Any) -> Model:
    return lake.model(
        "m", "select id, v, lsn from {changes(events)}", primary_key="id", input="changes", sequence_by="lsn", **config
    )


def once_before(effect: str, intrude: Callable[[], object]) -> AbstractContextManager[None]:
    """Lets somebody else act right before an effect takes place the first time."""
    done: list[str] = []

    def intruding(name: str, action: Callable[[], Any]) -> Any:
        if name == effect and not done:
            done.append(name)
            intrude()
        return action()

    return set_failpoint(intruding)


def windows_of(lake: Warehouse, model: Model) -> list[str]:
    """What each loading commit of the change table consumed."""
    changes = lake.state(model).changes
    assert changes is not None
    return [c.summary["arctic.consumed"] for c in changes.commits if "arctic.run" in c.summary]


@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_an_intruding_run_between_observation_and_commit_wins_and_the_other_finds_nothing_new(
    lake: Warehouse, merge: str
) -> None:
    model = events_model(lake, merge=merge)
    lake.append("events", [(1, "a", 1), (2, "b", 2), (3, "c", 3)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, "A", 4)], EVENTS)
    intruder: list[Outcome] = []
    session = lake.environment.new_session()
    with once_before("commit.branch", lambda: intruder.append(lake.run(model, lambda: session))):
        outcome = lake.run(model)
    assert lake.actions(intruder[0]) == (0, 1, 0)
    assert outcome.mode == "unchanged"
    assert len(windows_of(lake, model)) == len(set(windows_of(lake, model))) == 2
    assert lake.rows(model) == [(1, "A", 4), (2, "b", 2), (3, "c", 3)]
    assert lake.branches(model) == set()
    assert lake.broken(model) == []


class AtOnce(Parallel):
    """Does what is begun before what follows."""

    def submit_action(self, action: Callable[[], object]) -> None:
        action()


class AtLast(Parallel):
    """Does what is begun after what follows."""

    def wait_for_all(self) -> None:
        while self._late:
            self._late.pop()()

    def submit_action(self, action: Callable[[], object]) -> None:
        self._late.append(action)

    def __init__(self, spark: SparkSession, thresholds: EngineThresholds) -> None:
        super().__init__(spark, thresholds)
        self._late: list[Callable[[], object]] = []


class Never(Parallel):
    def submit_action(self, action: Callable[[], object]) -> None:
        raise AssertionError(action)


def merged_in_parts(lake: Warehouse) -> Model:
    """A model whose base is not written anew, with changes that wait for it."""
    model = events_model(lake, partition_by=["truncate(1, v)"])
    lake.append("events", [(1, "a", 1), (2, "b", 2), (3, "c", 3)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, "A", 4), (2, "bb", 5), (4, "d", 6)], EVENTS)
    return model


@pytest.mark.parametrize(
    "beside", [Parallel, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (AtOnce, AtLast))]
)
def test_rows_that_come_while_others_are_deleted_stay_whichever_commit_is_first(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch, beside: type[Parallel]
) -> None:
    model = merged_in_parts(lake)
    before = lake.state(model).base
    monkeypatch.setattr(merge, "Parallel", beside)
    lake.run(model)
    state = lake.state(model)
    assert before is not None
    assert state.base is not None
    assert state.changes is not None
    assert lake.rows(model) == [(1, "A", 4), (2, "bb", 5), (3, "c", 3), (4, "d", 6)]
    assert state.base.merged == state.changes.newest
    source = observe_source(lake.reader, model.table)
    assert source is not None
    assert source.bases == ((before.snapshot, before.merged), (state.base.snapshot, state.base.merged))
    assert lake.broken(model) == []


@pytest.mark.parametrize(
    ("replaced", "commits"),
    [
        pytest.param(8, 2, id="some", marks=pytest.mark.in_turn),
        pytest.param(9, 1, id="most"),
        pytest.param(10, 1, id="all", marks=pytest.mark.in_turn),
    ],
)
def test_a_base_is_overwritten_in_one_commit_where_most_of_its_rows_are_replaced(
    lake: Warehouse, replaced: int, commits: int
) -> None:
    model = lake.model("m", "select id, region, v from {s}", primary_key="id", partition_by=["region"], sort_key=["v"])
    lake.load("s", [(key, "eu" if key % 2 else "us", key) for key in range(10)], "id int, region string, v int")
    lake.run(model)
    before = lake.reader.load_table(model.base.schema, model.base.name)
    moved = [(key, "eu", -key - 1) for key in range(1, replaced)]
    rows = [*moved, *[(key, "eu" if key % 2 else "us", key) for key in range(replaced, 10)], (20, "new", 1)]
    lake.load("s", rows, "id int, region string, v int")
    assert lake.actions(lake.run(model)) == (1, replaced - 1, 1)
    after = lake.reader.load_table(model.base.schema, model.base.name)
    assert len(after.metadata.snapshots) - len(before.metadata.snapshots) == commits
    assert sorted(lake.rows(model)) == sorted(rows)
    assert lake.broken(model) == []


def test_a_base_whose_deletes_conflict_with_appends_is_merged_one_after_the_other(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As bases were made before, and as users may want it."""
    model = merged_in_parts(lake)
    table = quote_name(*model.base.parts)
    lake.spark.sql(f"alter table {table} set tblproperties ('write.delete.isolation-level' = 'serializable')")
    monkeypatch.setattr(merge, "Parallel", Never)
    lake.run(model)
    assert lake.rows(model) == [(1, "A", 4), (2, "bb", 5), (3, "c", 3), (4, "d", 6)]
    assert lake.broken(model) == []


def test_what_is_done_in_parallel_is_over_when_it_is_left(lake: Warehouse) -> None:
    begun, done = threading.Event(), []

    def slow() -> None:
        begun.wait()
        done.append(lake.spark.range(3).count())

    def failing() -> None:
        raise ValueError("of an action")

    def both(also: Callable[[], None]) -> None:
        with Parallel(lake.spark, EngineThresholds()) as beside:
            beside.submit_action(slow)
            beside.submit_action(failing)
            begun.set()
            also()

    def raising() -> None:
        raise KeyError("of the block")

    with pytest.raises(KeyError, match="of the block"):
        both(raising)
    assert done == [3]
    with pytest.raises(ValueError, match="of an action"):
        both(lambda: None)
    assert done == [3, 3]


def test_a_change_that_intrudes_before_the_commit_is_built_upon(lake: Warehouse) -> None:
    """Somebody commits to the change table itself while rows are written to the branch."""
    model = events_model(lake)
    lake.append("events", [(1, "a", 1)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, "A", 2)], EVENTS)
    table = lake.sql_name("m__changes")
    with once_before("commit.publish", lambda: lake.spark.table(table).limit(0).writeTo(table).append()):
        assert lake.actions(lake.run(model)) == (0, 1, 0)
    assert len(windows_of(lake, model)) == 2
    assert lake.branches(model) == set()
    assert lake.broken(model) == []


@pytest.mark.parametrize("count", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_of_racing_runs_one_applies_the_window_and_the_others_end_well(lake: Warehouse, count: int) -> None:
    model = events_model(lake)
    for number, start in enumerate(range(0, 40, 20)):
        lake.append("events", [(i % 25, f"v{i}", i) for i in range(start, start + 20)], EVENTS)
        together = threading.Barrier(count)

        def race(_: int, together: threading.Barrier = together) -> Outcome:
            session = lake.environment.new_session()
            together.wait()
            return lake.run(model, lambda: session)

        with ThreadPoolExecutor(count) as threads:
            outcomes = list(threads.map(race, range(count)))
        did = [outcome for outcome in outcomes if outcome.mode != "unchanged"]
        assert [sum(outcome.rows.values()) for outcome in did] == [20]
        assert len(windows_of(lake, model)) == number + 1
    assert len(lake.rows(model)) == 25
    assert lake.branches(model) == set()
    assert lake.broken(model) == []


def test_merges_that_race_merge_once(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    model = events_model(lake)
    lake.append("events", [(1, "a", 1), (2, "b", 2)], EVENTS)
    lake.run(model)
    lake.append("events", [(3, "c", 3), (1, "A", 4)], EVENTS)
    perform, seen = table_session.perform_step, []

    def performed(step: Any, context: Any) -> None:
        if isinstance(step, MergeBase) and not seen:
            seen.append(step)
            session = lake.environment.new_session()
            assert lake.run(model, lambda: session).mode == "unchanged"
        perform(step, context)

    monkeypatch.setattr(table_session, "perform_step", performed)
    assert lake.actions(lake.run(model)) == (1, 1, 0)
    assert lake.rows(model) == [(1, "A", 4), (2, "b", 2), (3, "c", 3)]
    base = lake.reader.load_table(lake.namespace, "m")
    assert len([s for s in base.metadata.snapshots if s.snapshot_id in {r.snapshot_id for r in base.history()}]) == 2
    assert lake.broken(model) == []


INTRUDERS: dict[str, Callable[[SparkSession, str], Any]] = {
    "append": lambda spark, table: spark.range(9, 10).writeTo(table).append(),
    "overwrite": lambda spark, table: spark.range(9).writeTo(table).overwrite(F.lit(True)),
    "delete": lambda spark, table: spark.sql(f"delete from {table} where id = 1").collect(),
    "rollback": lambda spark, table: spark.sql(
        f"alter table {table} create or replace branch main as of version {first_of(spark, table)}"
    ),
}


def first_of(spark: SparkSession, table: str) -> int:
    return int(spark.sql(f"select snapshot_id from {table}.snapshots order by committed_at").collect()[0][0])


@pytest.mark.parametrize(
    "intruder", [name if name == "append" else pytest.param(name, marks=pytest.mark.slow) for name in INTRUDERS]
)
def test_a_table_that_moved_on_is_not_overwritten(lake: Warehouse, intruder: str) -> None:
    spark, table = lake.spark, lake.sql_name("t")
    spark.sql(f"create table {table} using iceberg tblproperties ('format-version' = '3') as select 1L as id")
    spark.range(3).coalesce(1).writeTo(table).append()
    head = lake.reader.load_table(lake.namespace, "t").current_snapshot()
    assert head is not None
    INTRUDERS[intruder](spark, table)
    before = sorted_rows(spark.table(table))
    with pytest.raises(CommitConflict, match="Another writer committed first"):
        commit.overwrite_table(spark.range(5), lake.table("t"), head.snapshot_id, {})
    assert sorted_rows(spark.table(table)) == before
    now = lake.reader.load_table(lake.namespace, "t").current_snapshot()
    assert now is not None
    commit.overwrite_table(spark.range(5), lake.table("t"), now.snapshot_id, {"arctic.test": "a value"})
    assert sorted_rows(spark.table(table)) == [(number,) for number in range(5)]
    newest = lake.reader.load_table(lake.namespace, "t").current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert newest.summary["arctic.test"] == "a value"


def test_a_locked_catalog_is_waited_for(lake: Warehouse) -> None:
    file = lake.environment.profile.sqlite_file
    assert file is not None
    model = events_model(lake)
    lake.append("events", [(1, "a", 1)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, "A", 2)], EVENTS)
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("begin immediate")
        release = threading.Timer(2.0, lambda: connection.execute("rollback"))
        release.start()
        assert lake.actions(lake.run(model)) == (0, 1, 0)
        release.join()
    assert lake.broken(model) == []


class Lost(PySparkException):
    """The answer to a commit that went through."""


def test_a_commit_whose_answer_was_lost_is_found_and_not_done_again(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = events_model(lake, merge="on_read")
    lake.append("events", [(i, "a", i) for i in range(9)], EVENTS)
    lake.run(model)

    def loses(error: Exception) -> Failpoint:
        def after(name: str, action: Callable[[], Any]) -> Any:
            done = action()
            if name == "commit.publish":
                raise error
            return done

        return after

    for number, error in enumerate((CommitConflict("lost"), Lost("lost"))):
        lake.append("events", [(1, f"A{number}", 10 + number)], EVENTS)
        with set_failpoint(loses(error)):
            assert lake.actions(lake.run(model)) == (0, 1, 0)
        assert len(windows_of(lake, model)) == number + 2
    lake.append("events", [(1, "B", 20)], EVENTS)
    observe, asked = commit.observe_branch, []

    def away(*args: Any) -> BranchState:
        asked.append(args)
        if len(asked) > 1:
            raise CatalogError("the catalog is away")
        return observe(*args)

    monkeypatch.setattr(commit, "observe_branch", away)
    with set_failpoint(loses(Lost("lost"))), pytest.raises(CommitUnknown, match="applies nothing twice"):
        lake.run(model)
    monkeypatch.undo()
    assert lake.run(model).mode == "unchanged"
    assert len(windows_of(lake, model)) == 4
    assert lake.rows(model)[1] == (1, "B", 20)
    assert lake.broken(model) == []


def test_a_write_that_met_a_lock_is_not_sent_twice_to_one_branch(lake: Warehouse) -> None:
    """The first write may have gone through although its answer says that the catalog was locked."""
    model = events_model(lake)
    lake.append("events", [(1, "a", 1)], EVENTS)
    lake.run(model)
    lake.append("events", [(2, "b", 2)], EVENTS)
    writes = []

    def locked_at_first(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        writes.append(name)
        if writes.count("commit.append") == 1 and name == "commit.append":
            raise Lost("(org.sqlite.SQLiteException) [SQLITE_BUSY] The database file is locked")
        return done

    with set_failpoint(locked_at_first):
        assert lake.actions(lake.run(model)) == (1, 0, 0)
    assert writes.count("commit.append") == 2
    assert [row["id"] for row in lake.log(model)] == [1, 2]
    assert lake.branches(model) == set()
    assert lake.broken(model) == []


def test_branches_that_can_win_no_more_are_dropped_and_foreign_ones_kept(lake: Warehouse) -> None:
    model = events_model(lake)
    lake.append("events", [(1, "a", 1)], EVENTS)
    lake.run(model)
    for table in ("m", "m__changes"):
        for branch in ("arctic_dead", "mine"):
            lake.spark.sql(f"alter table {lake.sql_name(table)} create branch {branch}")
    lake.append("events", [(1, "v2", 2)], EVENTS)
    lake.run(model)
    today = datetime.datetime.now(datetime.timezone.utc)
    left = {0: {"mine", "arctic_dead"}, 2: {"mine"}}
    for days, expected in left.items():
        lake.append("events", [(1, f"v{days}", days + 3)], EVENTS)
        planner = RefreshPlanner(model, lake.reader, now=today + datetime.timedelta(days))
        Refresh(planner, lambda: lake.spark).run_refresh()
        assert lake.branches(model) == expected


def test_a_plan_is_shown_without_spark_and_holds(lake: Warehouse) -> None:
    model = events_model(lake)
    lake.append("events", [(1, "a", 1)], EVENTS)
    lake.run(model)
    lake.append("events", [(1, "b", 2)], EVENTS)
    plan = RefreshPlanner(model, lake.reader).explain_refresh()
    assert plan.decision.mode == "incremental"
    assert [type(step) for step in plan.steps] == [AppendChanges]


def test_rows_are_counted_where_a_server_did_not_tell_their_numbers(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server counts while it writes is an answer that it gives up after a tenth of a second."""
    original, silent = appending.count_again, []
    monkeypatch.setattr(appending, "count_again", lambda *given: silent.append(given) or original(*given))
    model = lake.model("m", "select id, v from {s}", primary_key="id")
    lake.load("s", [(1, "a"), (2, "b")], "id int, v string")
    monkeypatch.setattr(appending, "read_observed_counts", lambda seen: {})
    assert lake.actions(lake.run(model)) == (2, 0, 0)
    lake.load("s", [(1, "c"), (3, "d")], "id int, v string")
    assert lake.actions(lake.run(model)) == (1, 1, 1)
    assert len(silent) == 2
    assert lake.broken(model) == []


@pytest.mark.slow
def test_the_write_order_of_a_base_is_set_by_a_later_run_where_the_first_died_before(lake: Warehouse) -> None:
    def die(name: str, action: Callable[[], Any]) -> Any:
        if name == "base.write_order":
            raise KeyboardInterrupt
        return action()

    model = lake.model("m", "select id, v from {s}", primary_key="id", sort_key=["v"])
    lake.load("s", [(1, "a"), (2, "b")], "id int, v string")
    with set_failpoint(die), pytest.raises(KeyboardInterrupt):
        lake.run(model)
    assert lake.run(model).mode == "unchanged"
    order = lake.reader.load_table(lake.namespace, "m").sort_order()
    assert [field.source_id for field in order.fields] == [2]
    assert lake.rows(model) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("key", [["id"], []], ids=["a key", "no key"])
def test_a_delete_of_all_rows_of_its_files_names_its_attempt(lake: Warehouse, key: list[str]) -> None:
    """Spark leaves the session's properties out where it deletes whole files by a plain condition alone."""
    lake.load("s", [(1, "a")], "id int, v string")
    model = lake.model("m", "select * from {s}", primary_key=key)
    lake.run(model)
    context = lake.session_of(model).build_context(lake.state(model))
    sought = lake.frame([(1,)], "id int").select(*as_key(key))
    with override_settings(lake.spark, build_summary_settings({ATTEMPT: "mine"})):
        match = RowMatch(sought, build_key_conditions(key))
        delete_matching("base.merge.delete", context, model.base.parts, match)
    table = lake.reader.load_table(model.base.schema, model.base.name)
    assert table.current_snapshot().summary[ATTEMPT] == "mine"
    assert lake.spark.table(lake.sql_name("m")).count() == 0
