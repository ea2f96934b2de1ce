"""Partial rows: what two flows of events bring into one wide table, against the same as full rows of one flow."""

from __future__ import annotations

from pyspark.sql import functions as F

from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.spark.engine.statement import fill_statement
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.lake import NAMESPACE, Lake, differing, lake
from benchmarks.measure import Measurement, ratio, seconds
from benchmarks.rows import scattered

SHARE = 0.01
TARGET = 1.2
FULL, LEFT, RIGHT = (TableName("lake", NAMESPACE, name) for name in ("full_rows", "left_half", "right_half"))
FLOWS, ROWS = "two flows", "full rows"
_HALVES = {LEFT: ("a", "b", "at_left"), RIGHT: ("c", "d", "at_right")}


def measure(rows: int, rounds: int = 5) -> list[Measurement]:
    """The ratio of the two runs, each of which brings the same 1% of rows, of which both halves changed."""
    with lake(rows) as bench:
        _append(bench, 0, 1.0)
        models = {ROWS: _full(), FLOWS: _partial()}
        for model in models.values():
            bench.run(model)
        times: dict[str, list[float]] = {name: [] for name in models}
        for turn in range(1, rounds + 2):
            _append(bench, turn, SHARE)
            ordered = list(models.items()) if turn % 2 else list(models.items())[::-1]
            for name, model in ordered:
                taken = seconds(lambda model=model: bench.run(model))
                times[name] += [taken] if turn > 1 else []
        wrong = differing(*(bench.spark.table(quoted(*model.table.parts)) for model in models.values()))
        if wrong:
            raise AssertionError(f"the two tables differ in {wrong} rows")
    detail = {name: [round(value, 3) for value in taken] for name, taken in times.items()}
    label = f"1% of {rows:,} rows, in two flows / as full rows"
    return [Measurement(label, ratio(times, FLOWS, ROWS), "x", TARGET, False, detail)]


def _append(bench: Lake, turn: int, fraction: float) -> None:
    keys = bench.spark.range(bench.rows)
    changed = keys.where(scattered(fraction, turn)) if turn else keys
    values = {name: F.hash("id", F.lit(turn), F.lit(name)) for name in ("a", "b", "c", "d")}
    places = {name: F.lit(turn).cast("bigint") for name in ("at_left", "at_right")}
    for table, columns in {**_HALVES, FULL: ("a", "b", "at_left", "c", "d", "at_right")}.items():
        made = changed.select("id", *[{**values, **places}[column].alias(column) for column in columns])
        writer = made.writeTo(quoted(*table.parts))
        writer.append() if turn else writer.using("iceberg").tableProperty("format-version", "3").create()


def _full() -> Model:
    sql = fill_statement("SELECT id, a, b, at_left, c, d, at_right FROM {full}", full=quoted(format_changes_view(FULL)))
    config = {"primary_key": "id", "input": "changes", "sequence_by": "at_left"}
    return Model(TableName("lake", NAMESPACE, "of_rows"), sql, read_configuration(config, "of_rows"))


def _partial() -> Model:
    sql = fill_statement(
        "SELECT id, a, b, at_left, CAST(NULL AS int) AS c, CAST(NULL AS int) AS d, CAST(NULL AS bigint) AS at_right "
        "FROM {left} UNION ALL SELECT id, NULL, NULL, NULL, c, d, at_right FROM {right}",
        left=quoted(format_changes_view(LEFT)),
        right=quoted(format_changes_view(RIGHT)),
    )
    config = {
        "primary_key": "id",
        "input": "changes",
        "sequence_by": {"at_left": ["a", "b"], "at_right": ["c", "d"]},
    }
    return Model(TableName("lake", NAMESPACE, "of_flows"), sql, read_configuration(config, "of_flows"))
