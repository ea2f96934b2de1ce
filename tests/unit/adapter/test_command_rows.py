"""The rows that a command of dbt will read, by which the options of Java are chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import EngineThresholds
from dbt.adapters.arctic.materialize.command_rows import count_command_rows

LIMITS = EngineThresholds()


def a_node(name: str, *inputs: str, kind: str = "model", materialized: str = "arctic", **more: Any) -> Any:
    return SimpleNamespace(
        unique_id=name,
        resource_type=kind,
        database="lake",
        schema="dwd",
        alias=name,
        identifier=name,
        config=SimpleNamespace(materialized=materialized),
        depends_on=SimpleNamespace(nodes=[*inputs]),
        **more,
    )


def a_source(name: str) -> Any:
    source = a_node(name, kind="source")
    del source.alias, source.depends_on
    return source


ORDERS = a_source("orders")
ODS, DWD = a_node("ods", "orders"), a_node("dwd", "ods")


def count(nodes: Collection[Any], stored: Mapping[str, int], selected: str) -> int | None:
    def count_rows(table: TableName) -> int | None:
        return stored.get(table.name)

    return count_command_rows(nodes, selected.split(), count_rows, LIMITS)


@pytest.mark.parametrize(
    ("stored", "selected", "rows"),
    [
        ({"orders": 10, "ods": 7, "dwd": 3}, "ods dwd", 10 + 7 + 7 + 3),
        ({"orders": 10, "ods": 7, "dwd": 3}, "dwd", 7 + 3),
        ({"orders": 10, "ods": 7}, "dwd", 7 + 7),
        ({"orders": 10}, "ods dwd", 10 + 10 + 10 + 10),
        ({"orders": 10}, "dwd", None),
        ({}, "ods dwd", None),
        ({"orders": 10}, "", 0),
    ],
    ids=["stored", "one of two", "created", "all created", "upstream is missing", "source is unknown", "nothing"],
)
def test_each_selected_node_counts_what_it_reads_and_writes(
    stored: Mapping[str, int], selected: str, rows: int | None
) -> None:
    assert count([ORDERS, ODS, DWD], stored, selected) == rows


def test_who_reads_a_view_reads_its_tables() -> None:
    view = a_node("v", "orders", materialized="view")
    top = a_node("top", "v", "ods")
    assert count([ORDERS, ODS, view, top], {"orders": 10, "ods": 7, "top": 1}, "top v") == (10 + 7 + 1) + 10


def test_data_tests_read_their_models_and_write_nothing() -> None:
    test = a_node("unique_ods", "ods", kind="test", materialized="test")
    assert count([ODS, test], {"ods": 7}, "unique_ods") == 7


def test_a_seed_is_as_small_as_its_file() -> None:
    seed = a_node("zones", kind="seed", materialized="seed")
    seed.depends_on = SimpleNamespace(macros=[])
    assert count([seed], {}, "zones") == 0
    assert count([seed, a_node("m", "zones")], {"zones": 5}, "zones m") == 5 + 5 + 5


@pytest.mark.parametrize(
    "node", [a_node("made"), a_node("made", "orders", language="python")], ids=["reads no table", "python"]
)
def test_rows_that_code_creates_are_not_known_before_it_has_run(node: Any) -> None:
    assert count([ORDERS, node], {"orders": 10}, "made") is None
    assert count([ORDERS, node], {"orders": 10, "made": 4}, "made") is not None


def test_many_relations_are_not_asked_for() -> None:
    nodes = [a_node(f"m{number}", "orders") for number in range(LIMITS.counted_relations)]
    stored = dict.fromkeys(["orders", *(node.alias for node in nodes)], 1)
    assert count([ORDERS, *nodes[1:]], stored, " ".join(stored)) is not None
    assert count([ORDERS, *nodes], stored, " ".join(stored)) is None
