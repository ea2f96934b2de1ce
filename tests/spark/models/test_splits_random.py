"""However a history of events is split into runs, its table is what one run gives, and what a fold in Python says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.spark.engine.statement import quote_name as quoted
from tests.spark.event_fold import EVENTS, KINDS, Event, Kind, draw_histories
from tests.spark.warehouse import Rows, Warehouse, sorted_rows

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model


def make_model(lake: Warehouse, kind: Kind, name: str, merge: str = "on_write") -> Model:
    """A table of a kind, of all events or of all but those that empty it."""
    config: dict[str, Any] = {
        "primary_key": "id",
        "input": "changes",
        "sequence_by": "seq",
        "delete_when": "op = 'd'",
        "exclude_columns": ["op", "seq"],
        "merge": merge,
        **kind.config,
    }
    order = "" if isinstance(config["sequence_by"], dict) else "seq, "
    columns = f"{kind.columns}, " if kind.columns else ""
    rest = "" if kind.truncates else " where op <> 't'"
    sql = f"select id, {columns}{order}op from {{changes(events)}}{rest}"
    return lake.model(name, sql, **{key: value for key, value in config.items() if value is not None})


def make_counter(lake: Warehouse, kind: Kind, name: str) -> Model:
    """How many rows a table has in each of a few groups, as a sum over its changes."""
    group = "coalesce(a, '-')" if kind.columns else "id % 3"
    sql = f"select {group} as g, 1 as rows from {{changes({name})}}"
    return lake.model(f"{name}_counted", sql, primary_key="g", input="changes", merge_columns={"rows": "sum"})


def read_rows(lake: Warehouse, kind: Kind, model: Model) -> Rows:
    """What a table says at present, without the times of its runs."""
    rows = lake.spark.table(quoted(*model.table.parts)).where(kind.now)
    return sorted_rows(rows.select(*[column for column in rows.columns if not column.startswith("_recorded")]))


def check_counter(lake: Warehouse, kind: Kind, model: Model, counter: Model, seed: int) -> None:
    rows = lake.spark.table(quoted(*model.table.parts))
    groups = Counter(row.g for row in rows.selectExpr(f"{'a' if kind.columns else 'id % 3'} as g").collect())
    counted = {group: count for group, count in lake.rows(counter) if count}
    assert counted == {"-" if group is None else group: count for group, count in groups.items()}, f"seed {seed}"


def judge(lake: Warehouse, names: Sequence[str], batches: Sequence[Sequence[Event]], seed: int) -> dict[str, Model]:
    """Runs a table of each kind after each batch, and a sum over its changes after the first and the last ones.

    Returns the tables by their kind.
    """
    kinds = {f"t{place}": KINDS[name] for place, name in enumerate(names)}
    labels = dict(zip(kinds, names, strict=True))
    merges = random.Random(seed).choices(["on_write", "on_read"], k=len(kinds))
    models = {own: make_model(lake, kind, own, merge) for (own, kind), merge in zip(kinds.items(), merges, strict=True)}
    counters = {own: make_counter(lake, kind, own) for own, kind in kinds.items() if kind.is_countable}
    events: list[Event] = []
    for place, batch in enumerate(batches):
        lake.append("events", batch, EVENTS)
        events += batch
        for own, kind in kinds.items():
            lake.run(models[own])
            wanted = kind.fold([event for event in events if kind.truncates or event.op != "t"])
            rows = read_rows(lake, kind, models[own])
            differences = (sorted(set(rows) - set(wanted), key=repr)[:3], sorted(set(wanted) - set(rows), key=repr)[:3])
            assert rows == wanted, f"{labels[own]}, run {place + 1}, seed {seed}: {differences}"
            if own in counters and place in (0, len(batches) - 1):
                lake.run(counters[own])
                check_counter(lake, kind, models[own], counters[own], seed)
    return {labels[own]: model for own, model in models.items()}


def compare_with_one_run(lake: Warehouse, models: Mapping[str, Model], seed: int) -> None:
    """Compares tables with what all events give at once, and with what their change rows claim."""
    for name, model in models.items():
        assert lake.broken(model) == lake.left_out(model) == [], f"{name}, seed {seed}"


QUICK = {
    "forward": (True, ["history of tracked columns of rows that are there", "key"]),
    "late": (False, ["two times", "functions, net, truncated"]),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", QUICK)
def test_a_few_histories_give_the_same_table_however_they_are_split(lake: Warehouse, name: str) -> None:
    is_forward, kinds = QUICK[name]
    judge(lake, kinds, draw_histories(1, 40, 2, is_forward, truncations=1), 1)


FAMILY = 8
"""How many kinds of tables are compared in one test."""
FAMILIES = [list(KINDS)[start : start + FAMILY] for start in range(0, len(KINDS), FAMILY)]


@pytest.mark.slow
@pytest.mark.parametrize("family", range(len(FAMILIES)))
@pytest.mark.parametrize(("is_forward", "seed"), [(True, 11), (False, 12)])
def test_five_hundred_histories_give_the_same_table_however_they_are_split(
    lake: Warehouse, family: int, is_forward: bool, seed: int
) -> None:
    """Half of them in order but for ties, half late as well; each by all kinds of tables, in four runs and in one."""
    models = judge(lake, FAMILIES[family], draw_histories(seed, 250, 4, is_forward, truncations=2), seed)
    compare_with_one_run(lake, models, seed)
