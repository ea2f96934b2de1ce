"""Forgetting: the values of rows are in no file any more, and everything else is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.forgetting import Certificate, Forget
from arctic_runtime.spark.forget import trace
from arctic_runtime.spark.forget.forgetting import Forgetting
from arctic_runtime.spark.maintenance.savepoint import make_savepoint
from tests.spark.prebuilt import Prebuilt
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.catalog.reader import CatalogReader
    from arctic_runtime.model.table import Model
    from arctic_runtime.spark.engine.session import SparkEnvironment

EVENTS = "id int, name string, region string, v int, op string, lsn bigint"
ORDERS = "id int, customer int, amount int, op string, lsn bigint"


@dataclass(frozen=True)
class Shop:
    """Customers and orders by events, orders with the name of their customer, and sums by region."""

    lake: Warehouse
    customers: Model
    orders: Model
    named: Model
    sums: Model

    @property
    def models(self) -> tuple[Model, ...]:
        return (self.customers, self.orders, self.named, self.sums)

    def run(self) -> None:
        for model in self.models:
            self.lake.run(model)

    def customer(self, *rows: tuple[Any, ...]) -> None:
        self.lake.append("customer_events", rows, EVENTS)

    def order(self, *rows: tuple[Any, ...]) -> None:
        self.lake.append("order_events", rows, ORDERS)

    def forget(self, root: Model | None = None, **request: Any) -> Certificate:
        return forgetting(self.lake, root or self.customers, self.models, **request).run_forget()


def forgetting(lake: Warehouse, root: Model, models: tuple[Model, ...], **request: Any) -> Forgetting:
    return Forgetting(root, models, lake.reader, lambda: lake.spark, Forget(**request))


def shop(lake: Warehouse) -> Shop:
    """The tables in the middle are merged on read, the others on write."""
    common: dict[str, Any] = {"primary_key": "id", "compaction": "off"}
    events = {"input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'", "exclude_columns": ["op"], **common}
    return Shop(
        lake,
        lake.model("customers", "select id, name, region, v, op, lsn from {changes(customer_events)}", **events),
        lake.model("orders", "select id, customer, amount, op, lsn from {changes(order_events)}", **events),
        lake.model(
            "named",
            "select o.id, o.amount, c.name, coalesce(c.region, 'none') as region "
            "from {orders} o left join {customers} c on o.customer = c.id",
            **common,
            merge="on_read",
        ),
        lake.model(
            "sums",
            "select region, count(*) as n, sum(amount) as amount from {named} group by region",
            **{**common, "primary_key": "region"},
        ),
    )


def filled(shop: Shop) -> None:
    """Twelve customers with two orders each, and then changes of some of them."""
    places = ("eu", "us", "asia")
    shop.customer(*[(i, f"name{i}", places[i % 3], i, "c", i) for i in range(12)])
    shop.order(*[(i, i % 12, 100 + i, "c", i) for i in range(24)])
    shop.run()
    shop.customer((3, "SECRET3", "eu", 3, "u", 103), (5, "name5b", "us", 5, "u", 105))
    shop.order((3, 3, 77777, "u", 200))
    shop.run()
    shop.customer((3, "SECRET3b", "us", 3, "u", 203))
    shop.order((15, 4, 115, "u", 201))
    for model in (shop.customers, shop.orders, shop.named):
        shop.lake.run(model)


@pytest.fixture(scope="module")
def filled_shop(
    environment: SparkEnvironment, reader: CatalogReader, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Shop]:
    """A filled shop, which is built once and brought back for each test."""
    spark.sql(f"create namespace {environment.profile.catalog}.forgetting")
    lake = Warehouse(environment, reader, spark, "forgetting")
    prebuilt = Prebuilt.of(lake, lambda lake_name: filled(shop(lake_name)), tmp_path_factory.mktemp("copies"))
    return lambda: shop(prebuilt.restore())


def files(lake: Warehouse, *names: str) -> Iterator[Path]:
    """All data files below the folders of tables, also those that no snapshot has."""
    for name in names:
        location = lake.reader.load_table(lake.namespace, name).location().removeprefix("file:")
        yield from Path(location).rglob("*.parquet")


def values(lake: Warehouse, *names: str) -> set[Any]:
    """All values in all data files of tables, also those inside of structs."""
    values: set[Any] = set()
    for path in files(lake, *names):
        for column in pq.read_table(path).flatten().columns:
            values |= set(column.to_pylist())
    return values


def parts(*models: Model) -> list[str]:
    return [part.name for model in models for part in (model.table.changes, model.base)]


@pytest.mark.in_turn
def test_the_values_of_forgotten_rows_are_in_no_file_of_three_layers(filled_shop: Callable[[], Shop]) -> None:
    made = filled_shop()
    lake = made.lake
    made.lake.run(made.sums)
    before = {model.table.name: lake.rows(model) for model in made.models}
    assert {"SECRET3", "SECRET3b", "name3"} <= values(lake, *parts(made.customers, made.named))
    certificate = made.forget(keys=("3",))
    assert certificate.is_clean, certificate
    assert [table.table.name for table in certificate.tables] == ["customers", "named", "sums"]
    (note,) = certificate.notes
    assert note.startswith(f"lake.{lake.namespace}.customer_events, which {made.customers.table} reads")
    left = values(lake, *parts(*made.models))
    assert not left & {"SECRET3", "SECRET3b", "name3"}
    assert lake.rows(made.customers) == [row for row in before["customers"] if row[0] != 3]
    assert lake.rows(made.orders) == before["orders"]
    named = [row[:2] + ((None, "none") if row[2] == "SECRET3b" else row[2:]) for row in before["named"]]
    assert lake.rows(made.named) == named
    for model in made.models:
        assert lake.broken(model) == []
        assert lake.run(model).mode == "unchanged"
    assert not [table for table in lake.reader.list_tables(lake.namespace) if table.endswith("__forget")]
    made.customer((1, "name1b", "us", 1, "u", 300))
    for model in made.models:
        assert lake.run(model).mode in ("incremental", "unchanged")
    assert [row[2] for row in lake.rows(made.named) if row[0] in (1, 13)] == ["name1b", "name1b"]


@pytest.mark.slow
def test_rows_of_a_query_are_forgotten_also_where_spark_does_not_take_what_is_made_of_it(
    filled_shop: Callable[[], Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = filled_shop()
    monkeypatch.setattr(trace, "render_sql", lambda _: "select nothing")
    assert made.forget(keys=("3",)).is_clean
    monkeypatch.undo()
    assert not values(made.lake, *parts(*made.models)) & {"SECRET3", "SECRET3b", "name3"}
    assert [made.lake.broken(model) for model in made.models] == [[], [], [], []]


@pytest.mark.slow
def test_rows_that_were_deleted_before_are_forgotten_by_what_they_were(filled_shop: Callable[[], Shop]) -> None:
    """A condition is true for rows as they were; orders that were another customer's are found by their history."""
    made = filled_shop()
    lake = made.lake
    made.order((3, 4, 77777, "u", 400))
    made.run()
    made.customer((3, "SECRET3b", "us", 3, "d", 401))
    made.run()
    before = {model.table.name: lake.rows(model) for model in made.models}
    certificate = made.forget(where="name = 'SECRET3'")
    assert certificate.is_clean, certificate
    assert not values(lake, *parts(*made.models)) & {"SECRET3", "SECRET3b", "name3"}
    assert {model.table.name: lake.rows(model) for model in made.models} == before
    for model in made.models:
        assert lake.broken(model) == []


@pytest.mark.slow
def test_savepoints_that_hold_rows_refuse_it_until_they_may_go(lake: Warehouse) -> None:
    made = shop(lake)
    made.customer((0, "name0", "eu", 0, "c", 0))
    lake.run(made.customers)
    make_savepoint(lake.session_of(made.customers), "early")
    filled(made)
    make_savepoint(lake.session_of(made.named), "late")
    with pytest.raises(ConfigError, match=r"late of .*named"):
        made.forget(keys=("3",))
    assert not [table for table in lake.reader.list_tables(lake.namespace) if table.endswith("__forget")]
    assert "SECRET3" in values(lake, *parts(made.customers))
    certificate = made.forget(keys=("3",), drop_savepoints=True)
    assert {table.table.name: table.dropped_savepoints for table in certificate.tables}["named"] == ("late",)
    assert not values(lake, *parts(*made.models)) & {"SECRET3", "SECRET3b", "name3"}
    # The older savepoint has none of the rows, and stays.
    assert [left for table in certificate.tables for left in table.left] == []
    assert certificate.is_clean


@pytest.mark.slow
def test_events_made_of_forgotten_changes_are_gone_and_a_reader_that_is_behind_continues(lake: Warehouse) -> None:
    made = shop(lake)
    copies = lake.model(
        "copies",
        "select id, name, lsn, _action as what from {changes(customers)}",
        primary_key="id",
        input="changes",
        delete_when="what = 'delete'",
        exclude_columns=["what"],
        compaction="off",
    )
    regions = lake.model(
        "regions",
        "select region, name, _action as what from {changes(customers)} where _action <> 'delete'",
        primary_key="region",
        input="changes",
        exclude_columns=["what"],
        compaction="off",
    )
    seen = lake.model(
        "seen", "select id, lsn from {changes(customers)} where id < 3", primary_key="none", input="changes"
    )
    models = (*made.models, copies, regions, seen)
    made.customer(*[(i, f"name{i}", ("eu", "us")[i % 2], i, "c", i) for i in range(4)])
    lake.run(made.customers)
    lake.run(copies)
    made.customer((3, "SECRET3", "us", 3, "u", 103))
    lake.run(made.customers)
    lake.run(regions)
    lake.run(seen)
    with pytest.raises(ConfigError, match="seen has rows made of those"):
        forgetting(lake, made.customers, models, keys=("2",)).run_forget()
    assert ("us", "SECRET3") in lake.rows(regions)
    made.customer((2, "name2b", "eu", 2, "u", 104))
    lake.run(made.customers)
    certificate = forgetting(lake, made.customers, models, keys=("3",)).run_forget()
    assert certificate.is_clean, certificate
    assert not values(lake, *parts(made.customers, copies, regions)) & {"SECRET3", "name3"}
    assert [row[:2] for row in lake.rows(copies)] == [(0, "name0"), (1, "name1"), (2, "name2b")]
    assert lake.rows(regions) == [("eu", "name2b"), ("us", "name1")]
    made.customer((1, "name1b", "us", 1, "u", 500))
    for model in (made.customers, copies, regions, seen):
        lake.run(model)
        assert lake.broken(model) == []
    assert [row[0] for row in lake.rows(seen)] == [0, 1, 1, 2, 2]
    assert lake.rows(regions) == [("eu", "name2b"), ("us", "name1b")]


@pytest.mark.in_turn
def test_rows_that_a_query_still_gives_are_refused_and_only_history_goes_once_it_does_not(lake: Warehouse) -> None:
    model = lake.model("m", "select id, v from {s}", primary_key="id", compaction="off")
    lake.load("s", [(1, "SECRET"), (2, "b")], "id int, v string")
    lake.run(model)
    with pytest.raises(DataError, match="still gives rows"):
        forgetting(lake, model, (model,), keys=("1",)).run_forget()
    lake.load("s", [(2, "b")], "id int, v string")
    plan = forgetting(lake, model, (model,), where="v = 'SECRET'").plan_forget()
    assert [(table.keys, table.files) for table in plan.tables] == [(1, 2)]
    assert forgetting(lake, model, (model,), where="v = 'SECRET'").run_forget().is_clean
    assert "SECRET" not in values(lake, *parts(model))
    assert lake.rows(model) == [(2, "b")]
    assert lake.broken(model) == []
    with pytest.raises(ConfigError, match="not a valid condition"):
        forgetting(lake, model, (model,), where="nothing = 1").run_forget()
    with pytest.raises(ConfigError, match="not a valid value of the key `id`"):
        forgetting(lake, model, (model,), keys=("x",)).run_forget()
    assert forgetting(lake, model, (model,), keys=("77",)).run_forget().tables == ()


@pytest.mark.slow
def test_every_version_of_a_forgotten_row_is_deleted_and_the_others_stay(lake: Warehouse) -> None:
    made = shop(lake)
    kept: dict[str, Any] = {"primary_key": "id", "history": "scd2", "compaction": "off"}
    versions = lake.model("versions", "select id, name, region from {customers}", **kept)
    orders = lake.model("order_versions", "select id, amount, name from {named}", **kept)
    tracked = lake.model(
        "told",
        "select id, name, lsn, _action as what from {changes(customers)}",
        **kept,
        input="changes",
        sequence_by="lsn",
        delete_when="what = 'delete'",
        exclude_columns=["what"],
    )
    models = (*made.models, versions, orders, tracked)
    made.customer(*[(i, f"name{i}", ("eu", "us")[i % 2], i, "c", i) for i in range(4)])
    made.order(*[(i, i % 4, 100 + i, "c", i) for i in range(6)])
    for model in models:
        lake.run(model)
    made.customer((3, "SECRET3", "us", 3, "u", 103), (2, "name2b", "eu", 2, "u", 104))
    for model in models:
        lake.run(model)
    before = {model.table.name: lake.rows(model) for model in models}
    certificate = forgetting(lake, made.customers, models, keys=("3",)).run_forget()
    assert certificate.is_clean, certificate
    assert not values(lake, *parts(*models)) & {"SECRET3", "name3"}
    for model in (versions, tracked):
        assert lake.rows(model) == [row for row in before[model.table.name] if row[0] != 3]
    left = [row for row in before["order_versions"] if row[0] != 3]
    assert [row for row in lake.rows(orders) if row[0] != 3] == left
    assert [row[:3] for row in lake.rows(orders) if row[0] == 3] == [(3, 103, None)]
    for model in models:
        assert lake.broken(model) == []
        assert lake.run(model).mode == "unchanged"
