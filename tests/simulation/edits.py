"""Edits of queries beside services: other queries of two models, the rows that these have, and restated parts.

Each query of a model has the columns of its first one. Its rows follow from those of the first query: by a function
over the orders that it reads, and one over the rows that it returns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.restate import plan_restatement
from arctic_runtime.spark.refresh import restate
from arctic_runtime.spark.refresh.restate import RestatedPart
from arctic_runtime.spark.refresh.run import Refresh
from tests.simulation import spark as modelled
from tests.simulation.lake import Row
from tests.simulation.rows import Rows, diff_rows, fold_until
from tests.simulation.runtime import ENGINE, Pool, Reader, Replacement

PAID_COLUMNS = "select o.id, c.region, o.amount from lake.ods.orders o join lake.ods.customers c on o.customer = c.id"
SUMS = "select region, count(*) as n, sum(amount) as amount from lake.dwd.paid group by region"


@dataclass(frozen=True)
class Written:
    """A query of a model; `read` changes the orders that it reads, and `keep` the rows that the first one returns."""

    sql: str
    read: Callable[[Row], Row] = lambda row: row
    keep: Callable[[Row], Row | None] = lambda row: row

    def compute_rows(self, compute: Callable[[Mapping[Any, Rows]], Rows], tables: Mapping[Any, Rows]) -> Rows:
        """Computes the rows of the query by the function of the first one."""
        read = {table: {key: self.read(row) for key, row in rows.items()} for table, rows in tables.items()}
        kept = {key: self.keep(row) for key, row in compute(read).items()}
        return {key: row for key, row in kept.items() if row is not None}


QUERIES: Mapping[str, tuple[Written, ...]] = {
    "paid": (
        Written(f"{PAID_COLUMNS} where o.status = 'paid'"),
        Written(
            f"{PAID_COLUMNS} where o.status = 'paid' and o.amount > 40",
            keep=lambda row: row if row[2] > 40 else None,
        ),
        Written(PAID_COLUMNS, read=lambda row: (*row[:3], "paid") if len(row) == 4 else row),
        Written(
            f"{PAID_COLUMNS.replace('c.region', 'upper(c.region) as region')} where o.status = 'paid'",
            keep=lambda row: (row[0], row[1].upper(), row[2]),
        ),
        Written(
            "with o as (select * from lake.ods.orders where 'paid' = status) "
            "select o.id, region, o.amount from lake.ods.customers c join o on c.id = customer"
        ),
    ),
    "regions": (
        Written(SUMS),
        Written(f"{SUMS} having count(*) > 1", keep=lambda row: row if row[1] > 1 else None),
        Written(f"select region, n, amount * 2 as amount from ({SUMS})", keep=lambda row: (*row[:2], row[2] * 2)),
    ),
}
"""The queries that a model may have, by the name of its table."""


def edit_model(model: Model, place: int) -> Model:
    """The model with another one of its queries."""
    return replace(model, sql=QUERIES[model.table.name][place].sql)


def find_place(model: Model, fingerprint: str | None) -> int:
    """The place among the queries of a model of the one that has a fingerprint."""
    for place in range(len(QUERIES[model.table.name])):
        own = compute_fingerprint(edit_model(model, place), Upstreams())
        if json.loads(fingerprint or "{}").get("query") == json.loads(own)["query"]:
            return place
    raise AssertionError(f"{model.table} has no query of the fingerprint {fingerprint}")


# Restated parts

PARTS = ("amount > 30", "id < 5 or amount is null")
"""Parts of the rows of `paid` that are restated."""


def run_restate(reader: Reader, model: Model, where: str) -> RestatedPart:
    """Restates a part of a table."""
    return restate.restate_part(Refresh.from_model(model, reader, Pool(reader.lake).take_session), where)  # type: ignore[arg-type]


@contextmanager
def compare_part(refresh: Refresh, state: Any, upstreams: Upstreams, where: str, _: bool) -> Iterator[SimpleNamespace]:
    """Compares all rows of the query, as of the last run, with those of the table; only a part may differ."""
    plan = plan_restatement(refresh.model, state, upstreams, where)
    context = refresh.table.build_context(state)
    lake: Any = context.spark.lake
    table = lake.get_table((refresh.model.table.schema, refresh.model.table.changes.name))
    old = fold_until(lake, table, state.changes.head.sequence)
    rows = (
        old
        if plan.pinned is None
        else ENGINE.compute_pinned(lake, plan.pinned.tree, plan.pinned.outputs, plan.pinned.windows)
    )
    yield SimpleNamespace(context=context, plan=plan, shape=None, changes=diff_rows(old, rows), entries=RunSummary())


REPLACEMENTS: tuple[Replacement, ...] = (
    (restate, "_compare_part", compare_part),
    (restate, "publish_changes", modelled.publish_changes),
)
