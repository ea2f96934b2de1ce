"""Forgetting a hundred keys through three layers, against a rewrite of the files that hold them."""

from __future__ import annotations

from arctic_runtime.model.forgetting import Forget
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import fill_statement, join_parts, quote_text
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.forget.forgetting import Forgetting
from benchmarks.lake import Lake, events_model, lake, query_model
from benchmarks.layers import customers, join
from benchmarks.measure import Measurement, seconds

KEYS = 100
TARGET = 1.2
_THIRD = "select id, a * 2 as a, d, city from lake.bench.joined where a is not null"


def measure(rows: int) -> list[Measurement]:
    """Bytes written, and seconds, for each of the files that hold the keys; half of the tables are merged on read."""
    with lake(rows) as bench:
        bench.fill_events()
        facts = events_model("facts")
        joined = query_model("joined", join(facts.table), "id")
        third = query_model("third", _THIRD, "id", merge="on_read")
        models = (facts, customers(bench), joined, third)
        for model in models:
            bench.run(model)
        keys = tuple(str(place * (rows // KEYS)) for place in range(KEYS))
        forgetting = Forgetting(facts, models, bench.reader, lambda: bench.spark, Forget(keys=keys))
        plan = forgetting.plan_forget()
        held = sum(table.bytes for table in plan.tables)
        print(f"  {sum(table.files for table in plan.tables)} files of {held:,} bytes hold the keys", flush=True)
        figures = []
        taken = seconds(lambda: figures.append(forgetting.run_forget()))
        (certificate,) = figures
        assert certificate.is_clean, certificate
        assert [table.keys for table in certificate.tables] == [KEYS] * 3
        written = sum(table.rewritten_bytes for table in certificate.tables)
        rewriting = seconds(lambda: [_rewrite(bench, table) for model in models for table in _tables(model)])
        print(f"  forget: {taken:.2f} s; rewrite of the same files: {rewriting:.2f} s", flush=True)
        detail = {
            "seconds": round(taken, 2),
            "rewrite seconds": round(rewriting, 2),
            "bytes held": held,
            "bytes written": written,
            "files": sum(table.rewritten_files for table in certificate.tables),
            "scanned files": sum(table.scanned_files for table in certificate.tables),
        }
        return [
            Measurement("forget 100 keys: bytes rewritten / held", written / held, "x", TARGET, False, detail),
            Measurement("forget 100 keys: seconds / rewriting", taken / rewriting, "x", TARGET, False, detail),
        ]


def _tables(model: Model) -> tuple[TableName, ...]:
    return () if model.table.name == "customers" else (model.table.changes, model.base)


def _rewrite(bench: Lake, table: TableName) -> None:
    """All files of a table, since keys that are scattered over it are in all of them."""
    options = join_parts(map(quote_text, ("rewrite-all", "true")))
    bench.spark.sql(
        fill_statement(
            "CALL {catalog}.system.rewrite_data_files(table => {table}, options => map({options}))",
            catalog=quoted(table.catalog),
            table=quote_text(quoted(*table.parts)),
            options=options,
        )
    ).collect()
