"""An edited query and a restated month, over facts and customers: what these cost, beside a computation of all rows.

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
from arctic_runtime.spark.refresh.restate import restate_part
from arctic_runtime.spark.refresh.run import Refresh
from benchmarks.lake import NAMESPACE, Lake, differing, lake, query_model
from benchmarks.measure import Measurement, seconds
from benchmarks.rows import COLUMNS, images

CUSTOMERS = 100_000
LAYOUTS = {"by_month": {"partition_by": ["month"]}, "by_key": {}}
"""Layout of the facts and of the model → its settings: partitions of a month each, or hash buckets of the key alone."""

MONTHLY = "select o.id, o.month, o.a, o.b, o.c, o.d, c.city from {facts} o join {customers} c on c.a = o.a"
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
        restated = {layout: _restate_month(bench, layout, parts) for layout, parts in LAYOUTS.items()}
    return [
        _compare("an added column: edit / full computation", times["column"], 0.5),
        _compare("a filter that drops 1%: edit / full computation", times["filter"], 0.15),
        Measurement("a reformatted query: beyond an unchanged run", times["format"]["ours"] - unchanged, "s", 2, False),
        Measurement("edits: rows that differ", wrong, "", 0, False),
        *[_compare(f"one of twelve months restated, {each} / full", restated[each], 0.2) for each in LAYOUTS],
    ]


def _compare(metric: str, taken: dict[str, float], target: float) -> Measurement:
    return Measurement(metric, taken["ours"] / taken["full"], "x", target, False, taken)


def _fill(bench: Lake) -> None:
    facts = bench.spark.range(bench.rows).select(*images(F.col("id"), 0))
    month = (F.col("id") * 12 / bench.rows).cast("int").alias("month")
    _load(bench, "facts", facts.select("*", month), (*COLUMNS, "month"), "id")
    for layout, parts in LAYOUTS.items():
        bench.run(query_model(f"facts_{layout}", f"select * from {quoted('lake', NAMESPACE, 'facts')}", "id", **parts))
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
        _remove_query_text(bench, model)
    outcomes: list[object] = []
    taken = seconds(lambda: outcomes.append(bench.run(model)))
    print(f"    {name}: {outcomes[0]}", flush=True)
    return taken


def _remove_query_text(bench: Lake, model: Model) -> None:
    remove = fill_statement(
        "ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({text})",
        table=quoted(*model.table.changes.parts),
        text=quote_text(QUERY_TEXT),
    )
    bench.spark.sql(remove)


def _restate_month(bench: Lake, layout: str, parts: dict[str, list[str]]) -> dict[str, float]:
    """The seconds to restate a month with wrong rows, and those to compute and compare all rows.

    Another month is restated before, so that both ways are warm.
    """
    sources = {
        "facts": quoted("lake", NAMESPACE, f"facts_{layout}"),
        "customers": quoted("lake", NAMESPACE, "customers"),
    }
    sql = MONTHLY.format_map(sources)
    model, edited = (query_model(f"monthly_{layout}", text, "id", **parts) for text in (sql, f"-- The same.\n{sql}"))
    bench.run(model)
    refresh = Refresh.from_model(model, bench.reader, lambda: bench.spark)
    _damage_months(bench, model)
    restate_part(refresh, "month = 3")
    ours = seconds(lambda: print(f"    {restate_part(refresh, 'month = 5')}", flush=True))
    _damage_months(bench, model)
    _remove_query_text(bench, model)
    full = seconds(lambda: print(f"    full: {bench.run(edited)}", flush=True))
    return {"ours": ours, "full": full}


def _damage_months(bench: Lake, model: Model) -> None:
    damage = "UPDATE {table} SET b = -1 WHERE month IN (3, 5) AND id % 10 = 0"
    statement = fill_statement(damage, table=quoted(*model.table.parts))
    bench.spark.sql(statement)
