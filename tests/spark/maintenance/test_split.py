"""Splitting nodes: files move to a deeper level, and whoever reads or writes the table sees no change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.catalog.observation.manifests import observe_files, observe_specs
from arctic_runtime.model.files.compaction import ResizeBuckets
from arctic_runtime.model.files.layout import compute_node_count
from arctic_runtime.plan.maintenance.hash_trees import CompactionUnit, list_units
from arctic_runtime.spark.maintenance.compaction import compact_if_due, compact_table, split_table
from arctic_runtime.thresholds import Thresholds
from tests.crash.dying import dying
from tests.spark.tables.test_commits import once_before
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.spark.maintenance.compaction import Compacted

COLUMNS = "`i.d` int, `re``gion` string, v int"
SQL = "select `i.d`, `re``gion`, v from {s}"


class Shop:
    """A model with deleted rows, and what it must hold; its limit is given with what is asked of it."""

    def __init__(self, lake: Warehouse, nodes: int = 2, **config: Any) -> None:
        self.lake = lake.under(
            merge={"overwritten_base_rows": 0, "overwritten_base_values": 0, "overwritten_share": 100.0}
        )
        self.config = {"primary_key": "i.d", "nodes": nodes, "compaction": "off", **config}
        self.rows: dict[int, tuple[int, str | None, int]] = {}
        self.put(range(80), 0)
        self.put([1, 2, 3, 4, 5, 6], 100, gone=[7, 8])

    def model(self, limit: int = 2**40) -> Any:
        return self.lake.model("m", SQL, **self.config, node_bytes=limit)

    def put(self, keys: Any, v: int, gone: Any = ()) -> None:
        self.rows |= {key: (key, ("eu", "it's $1", None)[key % 3], v + key) for key in keys}
        for key in gone:
            del self.rows[key]
        self.lake.load("s", list(self.rows.values()), COLUMNS)
        self.lake.run(self.model())

    def split(self, limit: int) -> Compacted:
        return split_table(self.lake.session_of(self.model(limit)))

    def units(self) -> list[CompactionUnit]:
        found = observe_files(self.lake.reader, self.model().base)
        assert found is not None
        made = list_units(found, "i.d")
        assert made is not None
        return made

    def places(self) -> list[list[str]]:
        return sorted(sorted({str(place) for place in unit.hash_nodes}) for unit in self.units())

    @property
    def default(self) -> list[str]:
        specs = observe_specs(self.lake.reader, self.model().base)
        return [str(of) for of in specs.transforms[specs.default]]

    def is_shuffled(self, capsys: pytest.CaptureFixture[str]) -> bool:
        """Whether a join of the table with itself, on the key, moves its rows."""
        session = self.lake.environment.new_session()
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        base = session.table(self.lake.sql_name("m"))
        keys = base.selectExpr("`i.d` as k")
        capsys.readouterr()
        base.join(keys, base["`i.d`"] == keys["k"], "left_semi").explain()
        return "hashpartitioning(" in capsys.readouterr().out

    def check(self) -> None:
        """The table is right for who reads it, looks a row up or verifies it, and nothing is left behind."""
        model = self.model()
        assert self.lake.rows(model) == sorted(self.rows.values(), key=repr)
        for key in (1, 7, 40):
            found = look_up_row(self.lake.reader, model, [str(key)]).row
            assert (tuple(found.values()) if found else None) == self.rows.get(key)
        assert self.lake.broken(model) == []
        assert self.lake.branches(model) == set()


@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_one_node_splits_alone_and_the_table_is_right_while_two_depths_lie_side_by_side(
    lake: Warehouse, merge: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Merges, views, models above and lookups go on, and so does compaction."""
    shop = Shop(lake, merge=merge)
    down = lake.model("down", "select `i.d` as id, v from {m} where v >= 0", primary_key="id")
    lake.run(down)
    if merge == "on_read":
        # Enough rows that half of them take less than all, though what splits writes the rows' ids with them.
        shop.put(range(100, 3000), 7)
        compact_table(lake.session_of(shop.model()), "major")
        lake.run(down)
    sizes = sorted(unit.bytes for unit in shop.units())
    shop.lake = shop.lake.under(buckets={"level_split_share": 2})
    (step,) = shop.split(sizes[-1] - 1).steps
    assert isinstance(step, ResizeBuckets)
    assert (step.direction, step.depth, len(step.nodes)) == ("split", 2, 1)
    assert sorted(len(unit.hash_nodes) for unit in shop.units()) == [1, 1, 1]
    assert sorted(unit.depth for unit in shop.units()) == [1, 2, 2]
    assert not any(file.deleted for unit in shop.units() for file in unit.files if unit.depth == 2)
    assert merge == "on_read" or shop.is_shuffled(capsys)
    shop.check()
    assert lake.run(shop.model(), refuse).mode == "unchanged"
    assert lake.run(down, refuse).mode == "unchanged"
    shop.put([1, 40, 90, 91, 92, 93], 500, gone=[10])
    shop.check()
    outcome = lake.run(down)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (4, 2, 1))
    compact_table(lake.session_of(shop.model()), "full")
    assert not any(unit.is_mixed or any(file.deleted for file in unit.files) for unit in shop.units())
    assert {(unit.depth, len(unit.files)) for unit in shop.units()} == {(1, 1)}
    shop.check()


@pytest.mark.slow
def test_a_whole_level_splits_though_a_merge_comes_first_and_then_joins_leave_the_base_in_its_place(
    lake: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(lake)
    shop.put(range(100, 8000), 7)
    assert not shop.is_shuffled(capsys)
    limit = max(unit.bytes for unit in shop.units()) - 1
    with once_before("commit.publish", lambda: shop.put([3, 50], 900, gone=[60])):
        steps = shop.split(limit).steps
    assert [step.direction for step in steps if isinstance(step, ResizeBuckets)] == ["split"]
    (depth,) = {unit.depth for unit in shop.units()}
    assert depth > 1
    assert not any(unit.is_mixed for unit in shop.units())
    assert shop.default == [f"bucket({1 << depth}, i.d)"]
    assert not shop.is_shuffled(capsys)
    shop.put([5, 95], 300)
    assert not shop.is_shuffled(capsys)
    shop.check()


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 4])
def test_a_split_may_die_anywhere_and_a_later_one_completes_it(lake: Warehouse, nodes: int) -> None:
    lake = lake.under(expiry={"abandoned_branch_seconds": -1})
    shop = Shop(lake, nodes=nodes)
    session = lake.environment.new_session()
    limit = max(unit.bytes for unit in shop.units()) - 1
    for last in range(20):
        life = dying(last, lambda: split_table(lake.session_of(shop.model(limit), lambda: session)))
        assert lake.rows(shop.model()) == sorted(shop.rows.values(), key=repr), life
        if life is None:
            break
    assert life is None
    assert min(unit.depth for unit in shop.units()) > nodes.bit_length() - 1
    shop.put([1], 900)
    compact_table(lake.session_of(shop.model()), "major")
    assert not [name for name in lake.branches(shop.model()) if name.startswith("arctic_")]
    shop.check()


@pytest.mark.slow
def test_a_run_splits_the_partition_that_outgrew_its_limit_and_nodes_are_put_together_when_it_shrinks(
    lake: Warehouse,
) -> None:
    shop = Shop(lake, partition_by=["`re``gion`"], nodes=1)
    before = {unit.partition for unit in shop.units()}
    shop.config["compaction"] = {"small_files": 1}
    rows = {key: (key, "eu", key * 7919) for key in range(1000, 9000)}
    shop.rows |= rows
    shop.put([], 0)
    large = max(unit.bytes for unit in shop.units())
    model = shop.model(large - 1)
    refresh = lake.refresh_of(model)
    assert refresh.run_refresh().mode == "unchanged"
    compact_if_due(refresh.table)
    depths = {str(unit.partition[0].value): unit.depth for unit in shop.units()}
    assert (depths["eu"] > 0, depths["None"], depths["it's $1"]) == (True, 0, 0)
    assert {unit.partition for unit in shop.units()} == before
    assert shop.default == ["re`gion", f"bucket({1 << depths['eu']}, i.d)"]
    shop.check()
    shop.put([1, 2, 3, 1000], 100, gone=[4])
    shop.check()
    for key in rows:
        if key >= 1010:
            del shop.rows[key]
    shop.put([], 0)
    compact_table(lake.session_of(shop.model()), "full")
    assert {unit.depth for unit in shop.units()} == {0}
    assert shop.default == ["re`gion", "bucket(1, i.d)"]
    shop.check()


@pytest.mark.slow
def test_rows_lie_where_the_hash_key_alone_says(lake: Warehouse) -> None:
    """Told by Iceberg's own function in Spark."""
    lake.load("s", [(n, n % 5, n) for n in range(60)], "a int, b int, v int")
    model = lake.model("m", "select * from {s}", primary_key=["a", "b"], hash_key="b", nodes=4)
    lake.run(model)
    lying = lake.spark.table(".".join(model.table.parts))
    found = lying.selectExpr("lake.system.bucket(4, b) as bucket", "_partition.b_bucket as place").collect()
    assert {row["bucket"] == row["place"] for row in found} == {True}


@pytest.mark.slow
def test_a_new_base_has_as_many_nodes_as_its_partitions_need_in_the_mean(lake: Warehouse) -> None:
    lake.load("s", [(n, n % 8, n * 7919) for n in range(4000)], "id int, part int, v int")
    found = {}
    for partition_by in ([], ["part"]):
        model = lake.model(
            f"m{len(partition_by)}",
            "select * from {s}",
            primary_key="id",
            partition_by=partition_by,
            node_bytes=4096,
        )
        lake.run(model)
        specs = observe_specs(lake.reader, model.base)
        found[len(partition_by)] = specs.transforms[specs.default][-1].parameter or 0
        (first,) = [commit.bytes for commit in state_of(lake, model) if commit.rows]
        assert found[len(partition_by)] == compute_node_count(
            first // 8 ** len(partition_by), 1, 4096, Thresholds().buckets
        )
    assert 1 < found[1] < found[0]


def state_of(lake: Warehouse, model: Any) -> Any:
    """The commits of a model's change table."""
    changes = lake.state(model).changes
    assert changes is not None
    return changes.commits
