"""Queries over values that are easily followed wrong: chosen among ties, guarded by conditions, collated, or sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.table import Model
from arctic_runtime.spark.refresh import images
from arctic_runtime.spark.refresh.images import read_rows_at
from tests.spark.warehouse import Warehouse, sorted_rows

COLUMNS = "id int, g string, v int, s string"
FIRST = [(1, "a", 1, "5"), (2, "a", 2, "n/a"), (3, "b", 1, "n/a"), (4, "B", 9, "8")]
THEN = [(1, "a", 1, "6"), (2, "a", 2, "n/b"), (3, "b", 1, "n/a"), (5, "a", 0, "7"), (6, "a", 4, "1")]


def upstream(lake: Warehouse, rows: list[tuple[Any, ...]], name: str = "items", **config: str) -> Model:
    """A keyed table of these rows."""
    lake.load(f"{name}_given", rows, COLUMNS)
    model = lake.model(name, f"select * from {{{name}_given}}", primary_key="id", **config)
    lake.run(model)
    return model


def as_queried(lake: Warehouse, model: Model) -> list[tuple[Any, ...]]:
    return sorted_rows(lake.spark.sql(model.sql))


@dataclass(frozen=True)
class Query:
    """A query, its key, and why it is computed in full; nothing where its changes are followed."""

    sql: str
    key: str
    because: str = ""


QUERIES = {
    "a cast of rows that a window's place and a pattern leave": Query(
        "select cast(s as int) as num, count(distinct g) as n from (select g, s, row_number() over "
        "(partition by g order by v, id) as place from {items}) where place = 1 and s rlike '^[0-9]+$' group by 1",
        "num",
    ),
    "a join along a cast": Query(
        "select n.id, count(distinct i.s) as n from (select s, row_number() over (partition by g order by v, id) "
        "as place from {items}) i join {numbers} n on n.v = cast(i.s as int) where place = 1 and i.s rlike '^[0-9]+$' "
        "group by n.id",
        "id",
    ),
    "groups by a collation": Query(
        "select cast(k as string) as k, count(*) as n from (select g collate utf8_lcase as k from {items}) group by k",
        "k",
        "UNSUPPORTED",
    ),
    "distinct texts of a collation": Query(
        "select 1 as one, count(*) as n from (select distinct g collate utf8_lcase as g from {items})",
        "one",
        "UNSUPPORTED",
    ),
    "a condition by a collation": Query("select id, v from {items} where g collate utf8_lcase = 'A'", "id"),
    "a list of sorted rows": Query(
        "select g, collect_list(s) as list from (select * from {items} order by v desc) group by g",
        "g",
        "NOT_REPEATABLE",
    ),
}


@pytest.mark.slow
def test_values_are_those_of_the_query_after_a_change(lake: Warehouse) -> None:
    upstream(lake, [(1, "x", 5, "5"), (4, "x", 8, "8"), (5, "x", 7, "7")], "numbers")
    upstream(lake, FIRST)
    models = {
        name: lake.model(f"m{number}", query.sql, primary_key=query.key, refresh="incremental")
        for number, (name, query) in enumerate(QUERIES.items())
    }
    for model in models.values():
        lake.run(model)
    upstream(lake, THEN)
    for name, model in models.items():
        outcome = lake.run(model)
        assert lake.rows(model) == as_queried(lake, model), name
        wanted = QUERIES[name].because
        assert (outcome.mode, outcome.reason) == (("full", wanted) if wanted else ("incremental", "CHANGES")), name


TIED_ROWS = [(1, "1", 1, "open"), (5, "1", 1, "sent"), (2, "2", 1, "paid"), (6, "2", 1, "void")]
NEWER = [(9, "1", 2, "done"), (10, "2", 2, "done")]

CHOSEN = {
    "the groups of what is chosen": "select s as status, count(*) as n from "
    "(select g, max_by(s, v) as s from {items} group by g) group by s",
    "the groups of the last rows": "select s as status, count(*) as n from (select s, row_number() over "
    "(partition by g order by v desc) as place from {items}) where place = 1 group by s",
    "what is chosen, each once": "select distinct first(s) over (partition by g order by v desc) as status "
    "from {items}",
}


def sorted_otherwise(rows: DataFrame) -> DataFrame:
    return rows.coalesce(1).sortWithinPartitions(F.col("id").desc())


@pytest.mark.in_turn
def test_groups_of_what_was_chosen_among_ties_do_not_stay_behind(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of two rows of one day is the last may be another one whenever it is computed: here, as rows are sorted."""
    upstream(lake, TIED_ROWS)
    models = [lake.model(f"m{number}", sql, primary_key="status") for number, sql in enumerate(CHOSEN.values())]
    for model in models:
        lake.run(model)
    monkeypatch.setattr(images, "read_rows_at", lambda *arguments: sorted_otherwise(read_rows_at(*arguments)))
    upstream(lake, TIED_ROWS + NEWER)
    for name, model in zip(CHOSEN, models, strict=True):
        outcome = lake.run(model)
        assert lake.rows(model) == as_queried(lake, model), name
        assert outcome.reason == "NOT_REPEATABLE", name
