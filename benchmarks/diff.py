"""The difference that a changed query makes, with all below it, against full outer joins of the same tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import KINDS
from arctic_runtime.operations.differences import DIFF
from arctic_runtime.operations.operation import Answer, OperationContext
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.spark.engine.statement import fill_statement, join_parts, quote_number, trust_query
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.maintenance.cloning import clone_model
from arctic_runtime.spark.tables.table_session import TableSession
from benchmarks.lake import Lake, events_model, lake, query_model
from benchmarks.layers import customers, join
from benchmarks.measure import Measurement, ratio, side_by_side

TARGET = 0.5
CHANGED = 100
"""One row of so many gets another value by the changed query."""


def measure(rows: int, rounds: int = 3) -> list[Measurement]:
    """The ratio for the clones of a join and of sums over it, if the clone's query changes 1% of the joined rows.

    Both say how many rows were added, removed and changed, and for each column how many values; the numbers have to be
    the same.
    """
    with lake(rows) as bench:
        bench.fill_events()
        facts = events_model("facts")
        joined = query_model("joined", join(facts.table), "id")
        sums = query_model("sums", _write_sums(joined), ["city", "b"])
        for model in (facts, customers(bench), joined, sums):
            bench.run(model)
        bench.reader.create_namespace("dev")
        changed = fill_statement(
            "select * except (grade), if(id % {part} = 0, grade + 1, grade) as grade from ({query})",
            part=quote_number(CHANGED),
            query=trust_query(joined.sql),
        )
        own_joined = _clone(bench, joined, changed, {})
        own_sums = _clone(bench, sums, _write_sums(own_joined), {own_joined.table: joined.table})
        clones = (own_joined, own_sums)
        for model in clones:
            bench.run(model)
        context = OperationContext(bench.reader, lambda: bench.spark, clones)
        actions = {"diff": partial(_compare, context, clones), "joins": partial(_join_all, bench, clones)}
        answers = {name: action() for name, action in actions.items()}
        wrong = sum(answers["diff"][name] != counts for name, counts in answers["joins"].items())
        times = side_by_side(actions, rounds)
    detail = {**times, "counts": answers["diff"], "rows": rows}
    label = f"diff of a changed query, {rows:,} rows"
    return [
        Measurement(f"{label}: diff / full outer joins", ratio(times, "diff", "joins"), "x", TARGET, False, detail),
        Measurement(f"{label}: tables with other numbers", wrong, "", 0, False, answers["joins"]),
    ]


def _write_sums(joined: Model) -> str:
    return fill_statement(
        "select city, b, count(*) as n, sum(grade) as grades from {joined} group by city, b",
        joined=quoted(*joined.table.parts),
    )


def _clone(bench: Lake, model: Model, sql: str, upstreams: Mapping[TableName, TableName]) -> Model:
    own = replace(model, table=replace(model.table, schema="dev"), sql=sql)
    request = CloneRequest(model.table, round(1000 * time.time()), "bench", upstreams=upstreams)
    clone_model(TableSession(own, bench.reader, lambda: bench.spark), request)
    return own


def _compare(context: OperationContext, clones: tuple[Model, ...]) -> dict[str, Mapping[str, int]]:
    """Compares the clones with their origins as the command does; returns the counts of each."""
    answer: Answer = DIFF.run_operation(context, clones, DIFF.read_values({}))
    return {
        diff["table"]: {**diff["counts"], **{column["name"]: column["rows"] for column in diff["columns"]}}
        for diff in answer.data
    }


def _join_all(bench: Lake, clones: tuple[Model, ...]) -> dict[str, Mapping[str, int]]:
    """Computes the same counts by a full outer join of each clone with its origin."""
    return {str(model.table): _join_tables(bench, model) for model in clones}


def _join_tables(bench: Lake, model: Model) -> Mapping[str, int]:
    key = [quoted(part) for part in model.config.primary_key]
    origin = replace(model.table, schema="bench")
    names = bench.spark.table(quoted(*model.table.parts)).columns
    rest = [name for name in names if name not in model.config.primary_key]
    differs = {name: fill_statement("NOT (a.{name} <=> b.{name})", name=quoted(name)) for name in rest}
    in_both = fill_statement("a.{key} IS NOT NULL AND b.{key} IS NOT NULL", key=key[0])
    counts = [
        fill_statement("count_if(b.{key} IS NULL) AS added", key=key[0]),
        fill_statement("count_if(a.{key} IS NULL) AS removed", key=key[0]),
        *(
            fill_statement(
                "count_if({both} AND ({differs})) AS {name}", both=in_both, differs=condition, name=quoted(name)
            )
            for name, condition in {"changed": join_parts(differs.values(), " OR "), **differs}.items()
        ),
    ]
    statement = fill_statement(
        "SELECT {counts} FROM {own} a FULL OUTER JOIN {origin} b ON {on}",
        counts=join_parts(counts),
        own=quoted(*model.table.parts),
        origin=quoted(*origin.parts),
        on=join_parts([fill_statement("a.{part} = b.{part}", part=part) for part in key], " AND "),
    )
    row: Mapping[str, Any] = bench.spark.sql(statement).collect()[0].asDict()
    return {name: int(value) for name, value in row.items() if value or name in KINDS}
