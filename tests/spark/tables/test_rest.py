"""Models in an Iceberg REST catalog: written by Spark through it, and observed through it without Spark."""

from __future__ import annotations

import datetime
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from arctic_runtime.catalog.heads import observe_heads
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CatalogError, CommitConflict, ConfigError
from arctic_runtime.model.properties import KIND
from arctic_runtime.model.table import Model
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance.cloning import clone_model
from arctic_runtime.spark.maintenance.expiry import expire_versions
from arctic_runtime.spark.tables.create import NewTable, fill_table
from arctic_runtime.spark.tables.internal import NewColumns, create_without_snapshot
from arctic_runtime.spark.tables.rows.frames import list_frame_columns
from tests.crash.dying import dying
from tests.rest_catalog import serve
from tests.spark.warehouse import Warehouse, refuse

ORDERS = "id int, customer string, amount int"


@pytest.fixture
def lacks() -> dict[str, bool]:
    """What the catalog lacks; nothing, unless a test says otherwise."""
    return {}


@pytest.fixture
def address(tmp_path: Path, lacks: dict[str, bool]) -> Iterator[str]:
    """Where a catalog of the test's own listens."""
    with serve(tmp_path, **lacks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def rest(
    address: str, environment: SparkEnvironment, embedded: Callable[..., Profile], tmp_path: Path, lake: Warehouse
) -> Warehouse:
    """The Spark of all tests, with a session that knows the REST catalog in the place of the embedded one."""
    properties = {"type": "rest", "uri": address, "warehouse": str(tmp_path)}
    ours = SparkEnvironment(replace(embedded(tmp_path), catalog="remote", catalog_properties=properties))
    spark = ours.new_session()
    for setting in ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"):
        spark.conf.set(setting, lake.spark.conf.get(setting))
    reader = CatalogReader(ours.profile)
    reader.create_namespace("dwd")
    return Warehouse(ours, reader, spark, "dwd")


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_a_model_follows_its_source_and_asks_nothing_of_spark_without_news(rest: Warehouse, merge: str) -> None:
    model = rest.model("orders", "select id, customer, amount from {landed}", primary_key="id", merge=merge)
    per = rest.model("per", "select customer, sum(amount) as n from {orders} group by customer", primary_key="customer")
    rest.append_v2("landed", [(1, "a", 10), (2, "b", 20)], ORDERS)
    assert [rest.run(m).mode for m in (model, per)] == ["create", "create"]
    looked_at = [rest.table(name) for name in ("orders", "orders__changes", "landed", "absent")]
    before = observe_heads(rest.reader, looked_at)
    assert before == observe_heads(rest.reader, looked_at)
    assert before.heads.keys() == set(looked_at[:3])
    assert before.views == ({model.table} if merge == "on_read" else set())
    rest.append_v2("landed", [(3, "a", 5)], ORDERS)
    assert [rest.run(m).mode for m in (model, per)] == ["incremental", "incremental"]
    after = observe_heads(rest.reader, looked_at).heads
    assert all(after[table] != before.heads[table] for table in looked_at[:3])
    assert [rest.run(m, refuse).mode for m in (model, per)] == ["unchanged", "unchanged"]
    assert rest.rows(model) == [(1, "a", 10), (2, "b", 20), (3, "a", 5)]
    assert rest.rows(per) == [("a", 15), ("b", 20)]
    assert [rest.broken(m) for m in (model, per)] == [[], []]
    assert rest.branches(model) == set()
    kinds = {"orders": "view" if merge == "on_read" else "table", "orders__changes": "table", "landed": "table"}
    assert kinds.items() <= rest.reader.list_relations("dwd").items()


@pytest.mark.in_turn
@pytest.mark.parametrize("lacks", [{"stages": False}], ids=["stages nothing"])
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_where_nothing_is_staged_a_creation_may_die_at_every_effect(rest: Warehouse, merge: str) -> None:
    rest.append_v2("landed", [(1, "a", 10), (2, "b", 20)], ORDERS)
    for last in itertools.count():
        model = rest.model(f"m{last}", "select id, amount from {landed}", primary_key="id", merge=merge)
        life = dying(last, lambda model=model: rest.run(model))
        state = rest.state(model)
        assert state.conflicting is None
        rest.run(model)
        assert rest.rows(model) == [(1, 10), (2, 20)]
        assert rest.broken(model) == []
        assert rest.state(model).unfinished == frozenset()
        if life is None:
            break
    assert rest.reader.capabilities.staged_creation is False
    assert last > 7


@pytest.mark.parametrize("lacks", [{"stages": False}], ids=["stages nothing"])
def test_of_two_who_fill_the_same_empty_base_one_is_refused(rest: Warehouse) -> None:
    name = rest.table("twice")
    fill = NewTable(name, rest.frame([(1,)], "id int"), {KIND: "base"})
    create_without_snapshot("base.create", rest.spark, NewColumns(name, list_frame_columns(fill.rows), fill.properties))
    fill_table("base.create", rest.spark, fill)
    with pytest.raises(CommitConflict, match="write the first rows"):
        fill_table("base.create", rest.spark, fill)
    assert rest.spark.table(rest.sql_name("twice")).count() == 1


@pytest.mark.parametrize("lacks", [{"keeps_branches": False}], ids=["keeps no branches"])
def test_where_no_branches_are_kept_a_model_is_refused_and_nothing_is_left(rest: Warehouse) -> None:
    rest.append_v2("landed", [(1, "a", 10)], ORDERS)
    model = rest.model("m", "select id, amount from {landed}", primary_key="id")
    for _ in range(2):
        with pytest.raises(ConfigError, match="arctic models need table branches, and the catalog has none"):
            rest.run(model)
        assert rest.reader.list_relations("dwd") == {"landed": "table"}


@pytest.mark.parametrize("lacks", [{"has_views": False}], ids=["has no views"])
def test_where_no_views_are_kept_only_tables_merged_on_write_are_created(rest: Warehouse) -> None:
    rest.append_v2("landed", [(1, "a", 10)], ORDERS)
    with pytest.raises(ConfigError, match="`merge: on_read` needs views"):
        rest.run(rest.model("m", "select id, amount from {landed}", primary_key="id", merge="on_read"), refuse)
    assert rest.reader.list_relations("dwd") == {"landed": "table"}
    assert rest.run(rest.model("m", "select id, amount from {landed}", primary_key="id")).mode == "create"


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_a_model_is_cloned(rest: Warehouse, merge: str) -> None:
    model, clone = build_clone(rest, merge)
    assert rest.rows(clone) == [(1, "a", 10), (2, "b", 20)]
    assert rest.run(clone, refuse).mode == "unchanged"
    rest.append_v2("landed", [(3, "a", 5)], ORDERS)
    assert rest.run(clone).mode == "incremental"
    assert (len(rest.rows(clone)), len(rest.rows(model))) == (3, 2)
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2)
    steps = expire_versions(rest.session_of(clone, now=later), []).steps
    assert {step.keeps_files for step in steps} == {True}
    for step in steps:
        left = {snapshot.snapshot_id for snapshot in rest.reader.load_table("dwd", step.table.name).metadata.snapshots}
        assert not left.intersection(step.snapshots)
    assert [rest.broken(one) for one in (model, clone)] == [[], []]


@pytest.mark.parametrize("lacks", [{"registers": False}], ids=["registers nothing"])
def test_where_no_tables_are_registered_nothing_is_cloned_and_nothing_is_left(rest: Warehouse) -> None:
    with pytest.raises(ConfigError, match="the catalog registers no tables"):
        build_clone(rest, "on_write")
    assert set(rest.reader.list_relations("dwd")) == {"landed", "m", "m__changes"}
    assert set(rest.reader.load_table("dwd", "m").metadata.refs) == {"main"}


def build_clone(rest: Warehouse, merge: str) -> tuple[Model, Model]:
    """Makes a model, and a clone of it."""
    rest.append_v2("landed", [(1, "a", 10), (2, "b", 20)], ORDERS)
    config = {"primary_key": "id", "merge": merge, "retention": {"changes": "1d", "versions": "1d"}}
    model = rest.model("m", "select id, customer, amount from {landed}", **config)
    rest.run(model)
    clone = replace(model, table=rest.table("clone"))
    clone_model(rest.session_of(clone), CloneRequest(model.table, round(1000 * time.time()), "stamp"))
    return model, clone


def test_an_address_where_nobody_listens_is_named(address: str, tmp_path: Path) -> None:
    closed = address.rpartition(":")[0] + ":9"
    reader = CatalogReader(Profile("remote", {"type": "rest", "uri": closed, "warehouse": str(tmp_path)}))
    with pytest.raises(CatalogError, match=r"remote \(http://127\.0\.0\.1:9\): could not .*refused"):
        reader.list_namespaces()
