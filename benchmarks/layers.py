"""A join over facts, and sums over the join, kept by what changed, against the same queries as plain tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import fill_statement, join_parts
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.lake import Lake, events_model, lake, query_model
from benchmarks.measure import Measurement, ratio, seconds
from benchmarks.rows import COLUMNS

TARGETS = {0.001: (12.0, 2.5), 0.01: (10.0, 2.5), 0.1: (3.0, 1.2)}
"""The part of the facts that changes → times faster than a table, merged on read and on write."""
SUMS_TARGET = 2.0
CUSTOMERS = 100_000
_CUSTOMER_ROWS = (
    "select concat('name-', cast(id as string)) as d, concat('city-', cast(id % 50 as string)) as city, "
    "cast(id % 7 as int) as grade from lake.bench.customer_rows"
)
_JOIN = "select {columns}, c.city, c.grade from {facts} f left join lake.bench.customers c on f.d = c.d"
SUMS = "select city, b, count(*) as n, sum(a) as total from lake.bench.joined group by city, b"


def measure(rows: int, rounds: int = 3) -> list[Measurement]:
    """The ratios of computing everything to following the changes; the facts and the customers are followed too."""
    measurements: list[Measurement] = []
    with lake(rows) as bench:
        bench.fill_events()
        facts = events_model("facts", merge="on_read")
        joined = query_model("joined", join(facts.table), "id")
        viewed = query_model("viewed", join(facts.table), "id", merge="on_read")
        sums = query_model("sums", SUMS, ["city", "b"])
        for model in (facts, customers(bench), joined, viewed, sums):
            bench.run(model)
        for place, (fraction, (on_read, on_write)) in enumerate(TARGETS.items()):
            change = partial(_scatter, bench, fraction, 100 * (place + 1))
            times = turns(bench, facts, (viewed, joined, sums), fraction, rounds, change)
            detail = {name: [round(value, 2) for value in taken] for name, taken in times.items()}
            for name, target in (("viewed", on_read), ("joined", on_write)):
                label = f"join, {fraction:.1%} changed: table / {'on_read' if name == 'viewed' else 'on_write'}"
                measurements.append(Measurement(label, ratio(times, "table", name), "x", target, True, detail))
            if fraction == 0.01:
                label = "sums, 1.0% changed: table / on_write"
                measurements.append(
                    Measurement(label, ratio(times, "table of sums", "sums"), "x", SUMS_TARGET, True, detail)
                )
    return measurements


def join(facts: TableName) -> str:
    """The query of facts with the customers that they name."""
    columns = join_parts(quoted("f", name) for name in COLUMNS)
    return fill_statement(_JOIN, columns=columns, facts=quoted(*facts.parts))


def customers(bench: Lake) -> Model:
    """The table of customers, with the rows to make it of."""
    bench.spark.range(CUSTOMERS).writeTo("lake.bench.customer_rows").using("iceberg").create()
    return query_model("customers", _CUSTOMER_ROWS, "d")


def turns(
    bench: Lake,
    facts: Model,
    models: tuple[Model, ...],
    fraction: float,
    rounds: int,
    change: Callable[[int], None],
) -> dict[str, list[float]]:
    """Changes a part of the facts by `change`, which is given the turn, then follows them in every way.

    The first turn warms up and is not counted.
    """
    times: dict[str, list[float]] = {}
    for turn in range(rounds + 1):
        change(turn)
        bench.run(facts)
        actions = {
            "table": partial(bench.replace, "plain", join(facts.table)),
            "table of sums": partial(bench.replace, "s", SUMS),
        }
        actions |= {model.table.name: partial(bench.run, model) for model in models}
        for name, action in actions.items():
            taken = seconds(action)
            print(f"  {fraction:.1%} {f'round {turn}' if turn else 'warm-up'}: {name}: {taken:.2f} s", flush=True)
            if turn:
                times.setdefault(name, []).append(taken)
    return times


def _scatter(bench: Lake, fraction: float, first: int, turn: int) -> None:
    bench.append_changes(fraction, first + turn)
