"""Compaction: the same rows in fewer files, and nobody downstream sees that anything happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.files.compaction import CompactionMode, FileGroup, RewriteBase, RewriteFiles
from arctic_runtime.operations.inspect import read_status
from arctic_runtime.spark.maintenance.compaction import Compacted, compact_if_due, compact_table, plan_compaction
from arctic_runtime.spark.tables import file_rewrite
from tests.crash.dying import dying
from tests.spark.tables.test_commits import once_before
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.names import TableName

COLUMNS = "`i.d` int, `re``gion` string, v int"
SQL = "select `i.d`, `re``gion`, v from {s}"
PARTITIONED: dict[str, Any] = {"partition_by": ["`re``gion`"], "nodes": 2}
PLACES = ("eu", "it's $1", None)


class Shop:
    """A model that is merged several times, and the rows that it must hold."""

    def __init__(self, lake: Warehouse, **config: Any) -> None:
        self.lake = lake
        self.model = lake.model("m", SQL, primary_key="i.d", **{**PARTITIONED, **config})
        self.rows: dict[int, tuple[int, str | None, int]] = {}
        self.put(range(60), 0)

    def put(self, keys: range | list[int], v: int, gone: int | None = None) -> str:
        """One run, with what follows it, that updates these keys, or brings them in, and takes one away."""
        self.rows |= {key: (key, PLACES[key % 3], v + key) for key in keys}
        self.rows.pop(-1 if gone is None else gone, None)
        self.lake.load("s", list(self.rows.values()), COLUMNS)
        refresh = self.lake.refresh_of(self.model)
        mode = refresh.run_refresh().mode
        compact_if_due(refresh.table)
        return mode

    def several(self, count: int = 1) -> None:
        """Merges that touch every partition, none large enough to be folded by itself on read."""
        for n in range(1, count + 1):
            self.put([n, n + 1, n + 2], 100 * n, gone=20 + n)

    def compact(self, mode: CompactionMode) -> Compacted:
        return compact_table(self.lake.session_of(self.model), mode)

    def nodes(self, table: TableName | None = None) -> tuple[FileGroup, ...]:
        files = observe_files(self.lake.reader, table or self.model.base)
        assert files is not None
        return files.file_groups

    def lineage(self) -> list[tuple[Any, ...]]:
        """The change table with each row's id and commit."""
        table = self.lake.spark.table(self.lake.sql_name("m__changes"))
        rows = table.select("_row_id", "_last_updated_sequence_number", "`i.d`", "v", "_action").collect()
        return sorted(tuple(row) for row in rows)

    @property
    def is_right(self) -> bool:
        return self.lake.rows(self.model) == sorted(self.rows.values(), key=repr)


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_a_full_compaction_leaves_one_sorted_file_in_each_node_and_readers_see_no_change(
    lake: Warehouse, merge: str
) -> None:
    shop = Shop(lake, merge=merge, sort_key=["v"])
    down = lake.model("down", "select `i.d` as id, v from {m} where v >= 0", primary_key="id")
    shop.several()
    lake.run(down)
    stored = [file for node in shop.nodes() for file in node.files]
    if merge == "on_write":
        assert sum(file.deleted for file in stored) == 4
        assert sum(file.rows for file in stored) == len(shop.rows) + 4
    nothing = compact_table(lake.session_of(shop.model), "full", most_bytes=1)
    assert (nothing.steps, nothing.bytes) == ((), 0)
    assert nothing.next == nothing.plan.steps[0]
    done = shop.compact("full")
    assert isinstance(done.steps[0], RewriteBase) == (merge == "on_read")
    assert done.plan.steps == ()
    files = [file for node in shop.nodes() for file in node.files]
    assert (len(files), sum(file.rows for file in files)) == (len(shop.nodes()), len(shop.rows))
    assert not any(file.deleted for file in files)
    in_files = lake.spark.table(".".join(f"`{part}`" for part in shop.model.base.parts)).select("_file", "_pos", "v")
    placed = sorted((row["_file"], row["_pos"], row["v"]) for row in in_files.collect())
    assert placed == sorted(placed, key=lambda row: (row[0], row[2]))
    assert shop.is_right
    assert lake.run(shop.model, refuse).mode == "unchanged"
    assert lake.run(down, refuse).mode == "unchanged"
    shop.put([1, 40], -500)
    outcome = lake.run(down)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (0, 0, 2))
    assert shop.is_right
    assert lake.broken(shop.model) == []
    assert lake.branches(shop.model) == set()


@pytest.mark.in_turn
def test_small_files_of_the_change_table_are_joined_and_every_row_keeps_its_id_and_its_commit(lake: Warehouse) -> None:
    """A reader of the changes goes on from the version that it read, and a row not merged yet is found by its key."""
    shop = Shop(lake, merge="on_read", partition_by=None)
    events = "select `i.d` as id, v, _seq as n from {changes(m)}"
    down = lake.model("down", events, primary_key="id", input="changes")
    shop.several()
    lake.run(down)
    shop.put([2, 31], 500)
    before = shop.lineage()
    (step,) = shop.compact("minor").steps
    assert isinstance(step, RewriteFiles)
    assert (step.table, step.way) == (shop.model.table.changes, "join")
    assert len(shop.nodes(shop.model.table.changes)[0].files) == 1
    assert shop.lineage() == before
    shop.put([3], 900)
    assert shop.is_right
    for key, v in ((1, 101), (2, 502), (3, 903), (4, 4), (21, None)):
        row = look_up_row(lake.reader, shop.model, [str(key)]).row
        assert (row["v"] if row else None) == v, key
    assert read_status(lake.reader, shop.model, [down]).consumers[0].behind_rows == 3
    outcome = lake.run(down)
    assert sum(outcome.rows.values()) == 3
    assert lake.broken(shop.model) == []


@pytest.mark.slow
def test_small_files_of_a_node_are_joined_and_its_large_ones_left(lake: Warehouse) -> None:
    shop = Shop(lake)
    shop.several()
    largest = max(file.bytes for node in shop.nodes() for file in node.files)
    shop.lake = lake.under(compaction={"small_file_bytes": largest})
    steps = [step for step in shop.compact("minor").steps if step.table == shop.model.table]
    assert [step.way for step in steps if isinstance(step, RewriteFiles)] == ["join"]
    kept = [file.bytes for node in shop.nodes() for file in node.files]
    assert largest in kept
    assert max(sum(1 for file in node.files if file.bytes < largest) for node in shop.nodes()) == 1
    assert shop.is_right
    assert lake.broken(shop.model) == []


@pytest.mark.in_turn
def test_a_run_compacts_by_itself_when_it_is_worth_it_and_not_where_that_is_off(lake: Warehouse) -> None:
    limits = {"small_files": 1, "deleted_share": 0.01, "change_files": 2}
    shop = Shop(lake, compaction=limits)
    shop.several()
    assert len(shop.nodes()) < sum(len(node.files) for node in shop.nodes())
    shop.lake = lake.under(compaction={"commit_bytes": 0})
    assert shop.lake.run(shop.model, refuse).mode == "unchanged"
    shop.model = lake.model("m", SQL, primary_key="i.d", compaction="off", **PARTITIONED)
    shop.put([5], 700)
    assert len(shop.nodes()) < sum(len(node.files) for node in shop.nodes())
    shop.model = lake.model("m", SQL, primary_key="i.d", compaction=limits, **PARTITIONED)
    shop.put([6], 800)
    assert len(shop.nodes()) == sum(len(node.files) for node in shop.nodes())
    assert len(shop.nodes(shop.model.table.changes)[0].files) == 1
    assert shop.is_right
    assert lake.broken(shop.model) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_a_writer_that_comes_between_plan_and_commit_goes_first_and_no_row_is_lost_or_comes_back(
    lake: Warehouse, merge: str
) -> None:
    """Without partitions, where nodes are all that files are divided by."""
    lake = lake.under(merge={"overwritten_base_rows": 0, "overwritten_base_values": 0, "overwritten_share": 100.0})
    shop = Shop(lake, merge=merge, partition_by=None)
    shop.several()
    shop.compact("major")
    with once_before("commit.publish", lambda: shop.put([1, 50], 900, gone=2)):
        done = shop.compact("full")
    assert any(isinstance(step, RewriteFiles) for step in done.steps)
    assert shop.is_right
    assert lake.broken(shop.model) == []
    assert lake.branches(shop.model) == set()


@pytest.mark.slow
def test_a_compaction_gives_up_where_writers_are_always_faster_and_says_so(
    lake: Warehouse,
) -> None:
    lake = lake.under(compaction={"conflict_wait_seconds": 0.0})
    shop = Shop(lake)
    shop.several()

    def lose(*_: Any) -> None:
        raise CommitConflict("another was faster")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_rewrite, "swap_in", lose)
        with pytest.raises(CommitConflict, match="gave up after 5 commit conflicts"):
            shop.compact("full")
        shop.lake = lake.under(compaction={"commit_bytes": 0})
        shop.model = lake.model("m", SQL, primary_key="i.d", compaction={"deleted_share": 0.01}, **PARTITIONED)
        assert shop.put([4], 700) == "incremental"
    assert shop.is_right


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_a_compaction_may_die_anywhere_and_a_later_one_completes_it(lake: Warehouse, merge: str) -> None:
    lake = lake.under(expiry={"abandoned_branch_seconds": -1})
    shop = Shop(lake, merge=merge)
    shop.several()
    session = lake.environment.new_session()
    for last in range(20):
        life = dying(last, lambda: compact_table(lake.session_of(shop.model, lambda: session), "full"))
        assert shop.is_right, life
        if life is None:
            break
    assert life is None
    assert [len(node.files) for node in shop.nodes()] == [1] * len(shop.nodes())
    shop.put([1], 900)
    shop.compact("major")
    assert shop.is_right
    assert lake.broken(shop.model) == []
    assert not [name for name in lake.branches(shop.model) if name.startswith("arctic_")]


def test_where_there_is_nothing_to_do_spark_is_not_asked(lake: Warehouse) -> None:
    shop = Shop(lake, partition_by=None)
    assert compact_table(lake.session_of(shop.model, refuse), "major").steps == ()


def test_a_table_that_is_not_there_is_not_compacted(lake: Warehouse) -> None:
    model = lake.model("none", "select 1 as id", primary_key="id")
    with pytest.raises(ConfigError, match="has not been built yet"):
        plan_compaction(lake.session_of(model, refuse), "full")


@pytest.mark.slow
@pytest.mark.parametrize(
    "partition_by",
    [
        *[[f"{unit}(at)"] for unit in ("years", "months", "days", "hours")],
        *[["truncate(2, region)"], ["bucket(3, region)"], ["region", "days(at)"]],
        *[["at"], ["on"], ["price"], ["flag"], ["raw"]],
    ],
    ids=str,
)
def test_nodes_of_every_transform_are_found_by_their_values(lake: Warehouse, partition_by: list[str]) -> None:
    """Only the nodes that are over the threshold are written anew."""
    sql = (
        "select cast(id as int) as id, timestamp '2024-01-01 10:00:00' + make_interval(0, 0, 0, 40 * (id % 3)) as at, "
        "date '2024-01-01' + cast(id % 3 as int) as on, cast(id % 3 as decimal(9,2)) / 7 as price, id % 3 = 0 as flag, "
        "cast(cast(id % 3 as string) as binary) as raw, if(id % 3 = 1, null, concat('reg', id % 3)) as region, "
        "if(id in ({keys}), {v}, 0) as v from range({n})"
    )
    for v, keys in enumerate(("-1", "0, 3", "0, 3", "0, 3")):
        text = sql.replace("{keys}", keys).replace("{v}", str(v)).replace("{n}", "12")
        model = lake.model("m", text, primary_key="id", partition_by=partition_by, nodes=1)
        lake.run(model)
    files = observe_files(lake.reader, model.table)
    assert files is not None
    over = [node for node in files.file_groups if len(node.files) > 2]
    assert len(over) > 0
    before = lake.rows(model)
    model = lake.model(
        "m",
        text,
        primary_key="id",
        partition_by=partition_by,
        nodes=1,
        compaction={"small_files": 2, "deleted_share": 1},
    )
    steps = [step for step in compact_table(lake.session_of(model), "major").steps if isinstance(step, RewriteFiles)]
    assert [step.files for step in steps] == [sum(len(node.files) for node in over)]
    after = observe_files(lake.reader, model.table)
    assert after is not None
    assert {str(node): len(node.files) for node in after.file_groups} == {
        str(node): 1 if node in over or partition_by == ["raw"] else len(node.files) for node in files.file_groups
    }
    assert lake.rows(model) == before
    assert lake.broken(model) == []
