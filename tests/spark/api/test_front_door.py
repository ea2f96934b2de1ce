"""The library as a notebook uses it: define, refresh, read, changes, operations, mistakes, and a session it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import arctic_runtime as arctic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.spark.warehouse import Warehouse

QUERY = "select id, tail, minutes from {source} where minutes is not null"
CONFIG = {"primary_key": "id", "sort_key": "tail"}
FLIGHTS = "id bigint, tail string, minutes int"


@pytest.fixture
def warehouse(lake: Warehouse) -> Iterator[arctic.Warehouse]:
    with arctic.open_warehouse(lake.environment.profile) as opened:
        yield opened


@pytest.fixture
def flights(warehouse: arctic.Warehouse, lake: Warehouse) -> arctic.Table:
    """A table over a source of two rows, not refreshed yet."""
    lake.load("landing", [(1, "N1", 5), (2, "N2", None)], FLIGHTS)
    return warehouse.define_table(
        f"{lake.namespace}.flights", QUERY.format(source=f"{lake.namespace}.landing"), **CONFIG
    )


def collect(frame: DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_a_table_is_defined_refreshed_and_read_with_its_changes(flights: arctic.Table, lake: Warehouse) -> None:
    first = flights.refresh()
    assert (first.mode, first.rows["insert"]) == ("create", 1)
    assert flights.refresh().mode == "unchanged"
    lake.load("landing", [(1, "N1", 7), (2, "N2", 3)], FLIGHTS)
    second = flights.refresh()
    assert (second.rows["insert"], second.rows["update"]) == (1, 1)
    assert collect(flights.read(), "id", "tail", "minutes") == [(1, "N1", 7), (2, "N2", 3)]
    assert collect(flights.changes(since=first.version), "id", "_action") == [(1, "update"), (2, "insert")]
    assert flights.changes().count() == 3
    assert flights.changes(since=second.version).count() == 0
    assert flights.lookup(2) == {"id": 2, "tail": "N2", "minutes": 3}
    assert flights.lookup(9) is None


@pytest.mark.in_turn
def test_operations_answer_data_and_a_text(flights: arctic.Table) -> None:
    assert "next run: create" in str(flights.explain())
    flights.refresh()
    assert flights.explain().data["decision"]["mode"] == "unchanged"
    verified = flights.verify()
    assert not verified.differs
    assert str(verified).startswith(f"ok       {flights.name}: ")
    assert len(flights.history().data) == 1
    assert flights.status().data[0]["versions"]
    assert flights.why(1).data["changes"][0]["upstreams"][0]["changes"][0]["action"] == "insert"
    assert flights.why(9).differs
    flights.savepoint("before")
    assert flights.changes(since="before").count() == 0
    assert "left alone" in str(flights.compact(plan=True))
    assert flights.forget([1]).data["tables"]
    assert flights.reset().data["relations"]
    assert flights.read().count() == 1, "what is not confirmed is a plan"
    flights.reset(confirmed=True)
    assert flights.refresh().mode == "create"


def test_a_change_model_names_the_changes_of_its_source(
    warehouse: arctic.Warehouse, flights: arctic.Table, lake: Warehouse
) -> None:
    changes = warehouse.name_changes(f"{lake.namespace}.flights")
    flights.refresh()
    tails = warehouse.define_table(
        f"{lake.namespace}.tails", f"select tail, minutes from {changes}", primary_key="tail", input="changes"
    )
    assert tails.refresh().mode == "create"
    assert collect(tails.read(), "tail", "minutes") == [("N1", 5)]
    assert [table.name for table in warehouse.tables] == [flights.name, tails.name]


def test_a_key_that_is_unknown_is_answered_with_the_one_that_was_meant(warehouse: arctic.Warehouse) -> None:
    with pytest.raises(arctic.ConfigError, match="unknown key `sort_keys`; did you mean `sort_key`") as raised:
        warehouse.define_table("dwd.flights", "select 1 as id", primary_key="id", sort_keys="id")
    assert isinstance(raised.value, arctic.ArcticError)
    assert not warehouse.tables


def test_a_query_that_spark_refuses_is_an_error_in_words(warehouse: arctic.Warehouse, lake: Warehouse) -> None:
    table = warehouse.define_table(f"{lake.namespace}.wrong", "select tial from range(1)", primary_key="tial")
    with pytest.raises(arctic.ConfigError, match="`tial` cannot be resolved") as raised:
        table.refresh()
    assert "Project" not in str(raised.value), "no query plan"


def test_a_table_that_is_not_defined_is_answered_with_the_one_that_was_meant(
    warehouse: arctic.Warehouse, flights: arctic.Table, lake: Warehouse
) -> None:
    with pytest.raises(arctic.ConfigError, match=f"did you mean '{lake.namespace}.flights'"):
        warehouse.table(f"{lake.namespace}.flight")
    assert warehouse.table(f"{lake.namespace}.flights").query == flights.query
    with pytest.raises(arctic.ConfigError, match=r"expected: schema\.name"):
        warehouse.table("flights")


def test_the_session_of_a_notebook_is_joined_and_left_as_it_is(lake: Warehouse, flights: arctic.Table) -> None:
    flights.refresh()
    theirs = lake.environment.new_session()
    theirs.range(1).createOrReplaceTempView("mine")
    theirs.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    with arctic.open_warehouse(lake.environment.profile, spark=theirs) as joined:
        table = joined.define_table(f"{lake.namespace}.copy", f"select * from {flights.name}", primary_key="id")
        assert table.refresh().rows["insert"] == 1
        assert table.read().count() == 1
        assert joined.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert theirs.table("mine").count() == 1
    assert theirs.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"


def test_a_warehouse_that_is_closed_says_so_and_leaves_its_tables(lake: Warehouse) -> None:
    with arctic.open_warehouse(lake.environment.profile) as closing:
        one = closing.define_table(f"{lake.namespace}.one", "select 1 as id", primary_key="id")
        one.refresh()
    with pytest.raises(arctic.ConfigError, match="closed"):
        one.read()
    with pytest.raises(arctic.ConfigError, match="closed"):
        one.history()
    assert lake.spark.table(one.name).count() == 1
    closing.close()
