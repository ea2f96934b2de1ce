"""The judge of trails: without the events that a trail names, rows of a random project are as they were before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.model.row_trail import RowChange
from arctic_runtime.model.table import Model
from arctic_runtime.spark.why.trail import RowSearch
from tests.spark.warehouse import Warehouse

EVENTS = {"input": "changes", "sequence_by": "seq", "delete_when": "op = 'd'", "exclude_columns": ["seq", "op"]}
LANDED = {
    "orders": "id int, customer int, amount int, seq int, op string",
    "customers": "customer int, region int, seq int, op string",
}
KEYS = {"orders": ("id",), "customers": ("customer",)}

MIDDLE = {
    "details": (
        "id",
        "select o.id, o.customer, o.amount, c.region from {orders} o left join {customers} c"
        " on c.customer = o.customer where o.amount > 0",
    ),
    "bought": (
        "id",
        "select o.id, o.customer, o.amount, o.id % 3 as region from {orders} o"
        " where exists (select 1 from {customers} c where c.customer = o.customer)",
    ),
    "both": (
        "id",
        "select id, customer, amount, 1 as region from {orders} where amount > 1"
        " union all select customer + 1000, customer, 1, region from {customers}",
    ),
}
TOPS = {
    "totals": (
        "customer",
        "select customer, sum(amount) as total, count(*) as n, max(region) as region from {middle}"
        " where customer is not null group by customer",
    ),
    "many": (
        "region",
        "select region, count(*) as n from {middle} where region is not null group by region having count(*) > 1",
    ),
    "ranks": (
        "id",
        "select id, amount, rank() over (partition by region order by amount, id) as place,"
        " sum(amount) over (partition by customer) as total from {middle}",
    ),
    "seen": ("customer", "select distinct customer from {middle} where customer is not null"),
    "shares": (
        "id",
        "select m.id, m.amount, t.top, (select count(*) from {customers} c where c.region = m.region) as others"
        " from {middle} m left join (select customer, max(amount) as top from {middle} group by customer) t"
        " on t.customer = m.customer",
    ),
}
Landed = dict[str, list[tuple[Any, ...]]]

MORE_BATCHES = 30
"""Batches, at most, until a run has changed each table; few events change a table of few distinct values."""


@dataclass
class Shop:
    """Random events of orders and customers, with what has landed so far."""

    random: Random
    landed: Landed
    sequence: int = 0
    ends: list[int] = field(default_factory=list)

    def make_batch(self, count: int) -> Landed:
        batch: Landed = {name: [] for name in LANDED}
        for _ in range(count):
            self.sequence += 1
            pick = self.random.choice
            op = pick(("c", "c", "c", "d"))
            if self.random.random() < 0.7:
                row = (self.random.randrange(8), pick((None, 0, 1, 2, 3)), self.random.randrange(5), self.sequence, op)
                batch["orders"].append(row)
            else:
                batch["customers"].append((self.random.randrange(4), pick((None, 0, 1, 2)), self.sequence, op))
        for name, rows in batch.items():
            self.landed[name] += rows
        self.ends.append(self.sequence)
        return batch

    def find_end(self, sequence: int) -> int:
        """The number of the last event of the batch that an event is in."""
        return min(end for end in self.ends if end >= sequence)


def run_batch(lake: Warehouse, shop: Shop, models: list[Model], count: int) -> set[TableName]:
    """Lands a batch of events and runs all models; returns the tables that an incremental run has changed."""
    for name, rows in shop.make_batch(count).items():
        lake.append(f"{name}_landed", rows, LANDED[name])
    outcomes = {model.table: lake.run(model) for model in models}
    return {table for table, run in outcomes.items() if run.mode == "incremental" and sum(run.rows.values())}


def list_leaves(change: RowChange) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The landed events at the ends of a trail; the trail must end nowhere else."""
    assert not change.ends, change
    if change.transaction is not None:
        assert change.after is not None
        yield change.table.name, tuple(change.after.values())
    for upstream in change.upstreams:
        for below in upstream.changes:
            yield from list_leaves(below)


def compute_row(lake: Warehouse, models: list[Model], landed: Landed, key: Any) -> list[dict[str, Any]]:
    """The row of the last model that its query gives over the newest events, without any table of the project."""
    for name, rows in landed.items():
        newest = {}
        for row in sorted(rows, key=lambda row: row[-2]):
            newest[tuple(row[: len(KEYS[name])])] = row
        columns = LANDED[name]
        alive = [row for row in newest.values() if row[-1] != "d"]
        lake.spark.createDataFrame(alive, columns).drop("seq", "op").createOrReplaceTempView(f"why_{name}")
    for model in models:
        sql = model.sql
        for other in (*LANDED, *(one.table.name for one in models)):
            sql = sql.replace(lake.sql_name(other), f"why_{other}")
        lake.spark.sql(sql).createOrReplaceTempView(f"why_{model.table.name}")
    last = models[-1]
    rows = lake.spark.table(f"why_{last.table.name}").where(f"{last.config.primary_key[0]} = {key}").collect()
    return [row.asDict() for row in rows]


def pick_changed_keys(lake: Warehouse, model: Model, random: Random) -> list[Any]:
    """Keys of rows in random order, first those that changed most often."""
    (part,) = model.config.primary_key
    counts = Counter(row[part] for row in lake.log(model))
    return sorted(counts, key=lambda key: (-counts[key], random.random()))


def judge_change(lake: Warehouse, models: list[Model], shop: Shop, change: RowChange, where: str) -> None:
    """Computes a row from all events up to its change, and from the same events without those of its trail."""
    (value,) = change.key.values()
    assert change.is_proven, where
    leaves = set(list_leaves(change))
    assert leaves, where
    end = shop.find_end(max(row[-2] for _, row in leaves))
    later = {name: [row for row in rows if row[-2] <= end] for name, rows in shop.landed.items()}
    rest = {name: [row for row in rows if (f"{name}_landed", row) not in leaves] for name, rows in later.items()}
    now, before = (compute_row(lake, models, part, value) for part in (later, rest))
    assert now == ([] if change.after is None else [dict(change.after)]), where
    assert before == ([] if change.before is None else [dict(change.before)]), where


@pytest.mark.parametrize(
    ("seed", "tops", "judged"),
    [pytest.param(seed, 3, 6, marks=pytest.mark.slow) for seed in range(1, 8)],
)
def test_a_row_is_as_before_without_the_events_of_its_trail(lake: Warehouse, seed: int, tops: int, judged: int) -> None:
    random = Random(seed)
    shop = Shop(random, {name: [] for name in LANDED})
    sources = [
        lake.model(
            name,
            f"select * from {{changes({name}_landed)}}",
            primary_key=KEYS[name],
            **EVENTS,
        )
        for name in LANDED
    ]
    middle = random.choice(sorted(MIDDLE))
    key, sql = MIDDLE[middle]
    middle_model = lake.model(middle, sql, primary_key=key)
    chosen = random.sample(sorted(TOPS), tops)
    top_models = [
        lake.model(name, TOPS[name][1].replace("{middle}", f"{{{middle}}}"), primary_key=TOPS[name][0])
        for name in chosen
    ]
    models = [*sources, middle_model, *top_models]
    changed = set().union(*(run_batch(lake, shop, models, count) for count in (25, 4, 3)))
    for _ in range(MORE_BATCHES):
        if changed.issuperset(model.table for model in top_models):
            break
        changed |= run_batch(lake, shop, models, 4)
    search = RowSearch(lake.reader, lake.spark, {model.table: model for model in models})
    for model in top_models:
        found = 0
        for value in pick_changed_keys(lake, model, random):
            for change in search.trace_row(model, [str(value)]).changes:
                if change.run is not None and change.run.mode == "incremental" and found < judged:
                    judge_change(lake, [middle_model, model], shop, change, f"seed {seed}, {model.sql}: {change}")
                    found += 1
            if found == judged:
                break
        assert found, f"seed {seed}: no run after the first one changed {model.table}"
