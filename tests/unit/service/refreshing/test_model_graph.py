"""Who reads whom, and what follows for the order of refreshes."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.model_graph import ModelGraph


def t(name: str) -> TableName:
    return TableName("lake", "shop", name)


def graph(**reads: str) -> ModelGraph:
    return ModelGraph({t(model): {t(name) for name in value.split()} for model, value in reads.items()})


def names(tables: object) -> set[str]:
    assert isinstance(tables, frozenset | set)
    return {table.name for table in tables}


DIAMOND = graph(left="a", right="a b", both="left right", other="c")


def test_models_come_after_those_that_they_read() -> None:
    order = [model.name for model in DIAMOND.order]
    assert order.index("both") > max(order.index("left"), order.index("right"))
    assert names(DIAMOND.list_downstream([t("left")])) == {"both"}
    assert names(DIAMOND.origins[t("both")]) == {"a", "b", "left", "right"}


def test_models_that_share_no_model_are_groups_of_their_own() -> None:
    """Two models over one source never meet, so one need not wait for the other."""
    models = graph(left="a", right="a", both="left x", third="both")
    assert [{model.name for model in group} for group in models.list_groups()] == [{"left", "both", "third"}, {"right"}]


def test_a_model_that_reads_its_own_table_has_an_order() -> None:
    assert [model.name for model in graph(m="m a").order] == ["m"]


def test_models_that_read_each_other_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"read each other in a circle(.|\n)*lake\.shop\.p → lake\.shop\.q"):
        graph(p="q", q="p")


def test_origins_over_several_tables_name_the_models_that_bring_them() -> None:
    assert names(DIAMOND.shared_origins[t("both")]) == {"a"}
    assert names(DIAMOND.models_with_shared_origins[t("both")]) == {"left", "right"}
    deep = graph(low="a", high="low b", wide="a", top="high wide", lone="high")
    assert names(deep.models_with_shared_origins[t("top")]) == {"low", "high", "wide"}
    assert names(deep.models_with_shared_origins[t("lone")]) == set()
    assert names(graph(low="a", top="low a").shared_origins[t("top")]) == {"a"}
