"""Bringing 1% of scattered changes in until they are visible, against Iceberg's MERGE into an unbucketed table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import fill_statement
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.lake import EVENTS, Lake, events_model, lake
from benchmarks.measure import Measurement, ratio, seconds
from benchmarks.rows import COLUMNS

BASELINES = {
    "MERGE, Iceberg's default": "copy-on-write",
    "MERGE, merge-on-read": "merge-on-read",
}
"""Iceberg's own MERGE into unbucketed tables: as it is without settings, and with deletion vectors."""
FRACTION = 0.01
NEWS = "lake.bench.news"
_PROPERTIES = ("write.merge.mode", "write.update.mode", "write.delete.mode")


def measure(rows: int, rounds: int = 3) -> list[Measurement]:
    """The ratios of MERGE to each way of keeping a table; 10 million rows unless told."""
    with lake(rows) as bench:
        bench.fill_events()
        models = {
            "on_read, changelog input": events_model("read_input", merge="on_read", changelog="input"),
            "on_read, changelog lookup": events_model("read_lookup", merge="on_read"),
            "on_write": events_model("written"),
        }
        for model in models.values():
            bench.run(model)
        for name, mode in BASELINES.items():
            _fill_plain(bench, _table(name), mode)
        times = _turns(bench, models, rounds)
    detail = {name: [round(value, 2) for value in taken] for name, taken in times.items()}
    targets = {"on_read, changelog input": 4.0, "on_read, changelog lookup": 2.0, "on_write": 1.5}
    return [
        Measurement(f"upsert 1%: {baseline} / {name}", ratio(times, baseline, name), "x", target, True, detail)
        for baseline in BASELINES
        for name, target in targets.items()
    ]


def _turns(bench: Lake, models: Mapping[str, Model], rounds: int) -> dict[str, list[float]]:
    """The same new changes brought in by each way in turn; the first turn warms up and is not counted."""
    times: dict[str, list[float]] = {name: [] for name in (*BASELINES, *models)}
    for turn in range(rounds + 1):
        start = _head(bench)
        bench.append_changes(FRACTION, turn + 1)
        _set_news_aside(bench, start)
        actions = {name: partial(_merge, bench, _table(name)) for name in BASELINES}
        actions |= {name: partial(bench.run, model) for name, model in models.items()}
        for name, action in actions.items():
            taken = seconds(action)
            print(f"  {f'round {turn}' if turn else 'warm-up'}: {name}: {taken:.2f} s", flush=True)
            times[name] += [taken] if turn else []
    return times


def _table(baseline: str) -> str:
    return f"lake.bench.plain_{BASELINES[baseline].replace('-', '_')}"


def _fill_plain(bench: Lake, table: str, mode: str) -> None:
    writer = bench.spark.table(str(EVENTS)).select(*COLUMNS).writeTo(table).using("iceberg")
    for name in _PROPERTIES:
        writer = writer.tableProperty(name, mode)
    writer.create()


def _head(bench: Lake) -> int:
    return bench.reader.load_table("bench", "events").metadata.current_snapshot_id


def _set_news_aside(bench: Lake, start: int) -> None:
    """The new events in a table of their own, since a copy-on-write MERGE can't read a range of snapshots."""
    bench.spark.read.option("start-snapshot-id", str(start)).table(str(EVENTS)).writeTo(NEWS).using(
        "iceberg"
    ).createOrReplace()


def _merge(bench: Lake, table: str) -> None:
    merge = fill_statement(
        "merge into {table} t using {news} s on t.id = s.id "
        "when matched and s.op = 'd' then delete "
        "when matched then update set a = s.a, b = s.b, c = s.c, d = s.d, e = s.e "
        "when not matched and s.op <> 'd' then insert (id, a, b, c, d, e) values (s.id, s.a, s.b, s.c, s.d, s.e)",
        table=quoted(*table.split(".")),
        news=quoted(*NEWS.split(".")),
    )
    bench.spark.sql(merge).collect()
