"""Which models may read a table, by the manifest."""

from __future__ import annotations

from types import SimpleNamespace as Namespace
from typing import Any

import pytest

from arctic_runtime.model.names import TableName
from dbt.adapters.arctic.materialize import readers
from dbt.adapters.arctic.materialize.readers import Readers


def node(name: str, *parents: str, materialized: str = "arctic", code: str = "") -> Any:
    return Namespace(
        unique_id=name,
        resource_type="model",
        config=Namespace(materialized=materialized, get=lambda _: None),
        database="lake",
        schema="dwd",
        alias=name,
        raw_code=code,
        depends_on_nodes=parents,
    )


def table(name: str) -> TableName:
    return TableName("lake", "dwd", name)


NODES = (
    node("orders"),
    node("direct", "orders"),
    node("open_orders", "orders", materialized="view"),
    node("named", "open_orders", materialized="ephemeral"),
    node("through_views", "named"),
    node("copy", "orders", materialized="table"),
    node("behind_a_table", "copy"),
    node("behind_a_reader", "direct"),
    node("by_source", "source.orders"),
    node("by_text", code="select * from `lake`.dwd.ORDERS"),
    node("by_another_text", code="select * from lake.dwd.orders_of_today"),
)
SOURCES = (Namespace(unique_id="source.orders", database="lake", schema="dwd", identifier="orders"),)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", ["by_source", "by_text", "direct", "through_views"]),
        ("direct", ["behind_a_reader"]),
        ("behind_a_reader", []),
        ("of another project", []),
    ],
)
def test_readers_are_listed_from_the_manifest(name: str, expected: list[str]) -> None:
    assert [reader.name for reader in Readers(NODES, SOURCES).list_readers(table(name))] == expected


def test_a_manifest_is_looked_through_once_for_all_of_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    split = readers.list_words
    monkeypatch.setattr(readers, "list_words", lambda text: looked.append(text) or split(text))
    nodes = [node(f"m{i}", f"m{i - 1}", code=f"text {i}") for i in range(100)]
    result = Readers(nodes, ())
    assert [result.list_readers(table(f"m{i}"))[0].name for i in range(99)] == [f"m{i + 1}" for i in range(99)]
    assert sum(text.startswith("text") for text in looked) == 100
