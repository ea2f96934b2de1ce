"""A changed query that moves 1% of the rows, and the model below it: `arctic diff` against full outer joins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.differences import DIFF
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.cloning import clone_model
from arctic_runtime.spark.tables.table_session import TableSession
from benchmarks.lake import Lake, events_model, lake, query_model
from benchmarks.layers import SUMS, customers, join
from benchmarks.measure import Measurement, ratio, side_by_side

SCHEMA = "dev"
TARGET = 0.5


def measure(rows: int, rounds: int = 3) -> list[Measurement]:
    """The seconds of the diff of a join and of its sums, divided by those of full outer joins of the same tables."""
    with lake(rows) as bench:
        bench.fill_events()
        facts = events_model("facts")
        joined = query_model("joined", join(facts.table), "id")
        sums = query_model("sums", SUMS, ["city", "b"])
        for model in (facts, customers(bench), joined, sums):
            bench.run(model)
        bench.reader.create_namespace(SCHEMA)
        own = [_clone(bench, model) for model in (joined, sums)]
        moved = replace(own[0], sql=f"select * from ({own[0].sql}) where id % 100 <> 7")
        below = replace(own[1], sql=own[1].sql.replace(str(joined.table), str(moved.table)))
        for model in (moved, below):
            bench.run(model)
        counts: dict[str, list[dict[str, int]]] = {"diff": [], "joins": []}

        def compare() -> None:
            context = OperationContext(bench.reader, lambda: bench.spark, (moved, below))
            answer = DIFF.run_operation(context, [moved], DIFF.read_values({}))
            counts["diff"] = [dict(diff["counts"]) for diff in answer.data]

        def join_tables() -> None:
            counts["joins"] = [_count_by_join(bench, model, other.table) for model, other in _pairs]

        _pairs = [(moved, joined), (below, sums)]
        times = side_by_side({"diff": compare, "joins": join_tables}, rounds)
    wrong = sum(one != other for one, other in zip(counts["diff"], counts["joins"], strict=True))
    label = f"1% of {rows:,} rows moved, with the model below"
    return [
        Measurement(f"{label}: diff / full outer joins", ratio(times, "diff", "joins"), "x", TARGET, False, times),
        Measurement(f"{label}: models with other counts", wrong, "models", 0, False, counts),
    ]


def _clone(bench: Lake, model: Model) -> Model:
    own = replace(model, table=replace(model.table, schema=SCHEMA))
    request = CloneRequest(model.table, round(1000 * time.time()), SCHEMA)
    clone_model(TableSession(own, bench.reader, lambda: bench.spark), request)
    return own


def _count_by_join(bench: Lake, model: Model, other: TableName) -> dict[str, int]:
    """Counts the rows of each kind by one full outer join of both tables on the key."""
    key: Sequence[str] = model.config.primary_key
    both = [quote_name(*table.parts) for table in (model.table, other)]
    names = [name for name in bench.spark.table(both[0]).columns if name not in key]
    on = " and ".join(f"a.{part} <=> b.{part}" for part in key)
    equal = " and ".join(f"a.{name} <=> b.{name}" for name in names) or "true"
    row = bench.spark.sql(
        f"select count_if(b.{key[0]} is null) as added, count_if(a.{key[0]} is null) as removed, "
        f"count_if(a.{key[0]} is not null and b.{key[0]} is not null and not ({equal})) as changed "
        f"from {both[0]} a full outer join {both[1]} b on {on}"
    ).collect()[0]
    return {name: int(row[name]) for name in ("added", "removed", "changed")}
