"""An edited query over facts and customers: what the run costs, beside one that computes and compares everything.

Two models with the same query are edited in the same way. From the second one the stored text of its query is removed
before each edit, so that its run does what a run without it does.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import QUERY_TEXT
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import fill_statement, quote_text
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.lake import NAMESPACE, Lake, differing, lake, query_model
from benchmarks.measure import Measurement, seconds
from benchmarks.rows import COLUMNS, images

CUSTOMERS = 100_000
JOIN = "from {facts} o join {customers} c on c.a = o.a"
TEXTS = {
    "load": f"select o.id, o.a, o.b, o.c, o.d, c.city {JOIN}",
    "column": f"select o.id, o.a, o.b, o.c, o.d, c.city, o.b * 2 as twice {JOIN}",
    "filter": f"select o.id, o.a, o.b, o.c, o.d, c.city, o.b * 2 as twice {JOIN} where o.id % 100 <> 7",
    "format": f"-- The same.\nselect id, o.a, b, c, d, city, b * 2 as twice\n{JOIN} where (o.id % 100 <> 7)",
}


def measure(rows: int) -> list[Measurement]:
    """The seconds of an edit divided by those of a full computation, and the rows that differ after all edits."""
    with lake(rows) as bench:
        _fill(bench)
        times: dict[str, dict[str, float]] = {}
        for edit in TEXTS:
            times[edit] = {name: _run(bench, name, edit) for name in ("full", "ours")}
            print(f"  {edit}: {times[edit]}", flush=True)
        unchanged = _run(bench, "ours", "format")
        tables = [bench.spark.table(quoted("lake", NAMESPACE, name)) for name in ("ours", "full")]
        wrong = differing(*tables)
    return [
        _compare("an added column: edit / full computation", times["column"], 0.5),
        _compare("a filter that drops 1%: edit / full computation", times["filter"], 0.15),
        Measurement("a reformatted query: beyond an unchanged run", times["format"]["ours"] - unchanged, "s", 2, False),
        Measurement("edits: rows that differ", wrong, "", 0, False),
    ]


def _compare(metric: str, taken: dict[str, float], target: float) -> Measurement:
    return Measurement(metric, taken["ours"] / taken["full"], "x", target, False, taken)


def _fill(bench: Lake) -> None:
    facts = bench.spark.range(bench.rows).select(*images(F.col("id"), 0))
    _load(bench, "facts", facts, COLUMNS, "id")
    customers = bench.spark.range(CUSTOMERS).select(F.col("id").alias("a"), F.concat(F.lit("c"), "id").alias("city"))
    _load(bench, "customers", customers, ("a", "city"), "a")


def _load(bench: Lake, name: str, rows: DataFrame, columns: tuple[str, ...], key: str) -> None:
    landed = TableName("lake", NAMESPACE, f"landed_{name}")
    rows.writeTo(quoted(*landed.parts)).using("iceberg").create()
    bench.run(query_model(name, f"select {', '.join(columns)} from {quoted(*landed.parts)}", key))


def _build(name: str, edit: str) -> Model:
    sources = {source: quoted("lake", NAMESPACE, source) for source in ("facts", "customers")}
    return query_model(name, TEXTS[edit].format_map(sources), "id")


def _run(bench: Lake, name: str, edit: str) -> float:
    model = _build(name, edit)
    if name == "full" and edit != "load":
        remove = fill_statement(
            "ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({text})",
            table=quoted(*model.table.changes.parts),
            text=quote_text(QUERY_TEXT),
        )
        bench.spark.sql(remove)
    outcomes: list[object] = []
    taken = seconds(lambda: outcomes.append(bench.run(model)))
    print(f"    {name}: {outcomes[0]}", flush=True)
    return taken
