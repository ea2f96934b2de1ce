"""Reading a table that took many small commits and compacted itself, against the same table written once, sorted."""

from __future__ import annotations

from arctic_runtime.catalog.observation.manifests import observe_files
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.maintenance.compaction import compact_if_due
from arctic_runtime.spark.refresh.run import Refresh
from benchmarks.lake import Lake, differing, events_model, lake
from benchmarks.measure import Measurement, ratio, seconds, side_by_side
from benchmarks.rows import total

COMMITS = 200
CHANGES = 5_000
TARGET = 1.25
TAKEN, WRITTEN = "many commits", "written once"


def measure(rows: int, commits: int = COMMITS, rounds: int = 5) -> list[Measurement]:
    """The ratio of the two readings of every column; the table has a tenth of `rows`."""
    with lake(max(rows // 10, CHANGES)) as bench:
        bench.fill_events()
        model, once = (events_model(name, sort_key="e") for name in ("taken", "once"))
        bench.run(model)
        spent = [_commit(bench, model, turn) for turn in range(1, commits + 1)]
        bench.run(once)
        tables = {TAKEN: model.table, WRITTEN: once.table}
        wrong = differing(*(bench.spark.table(quoted(*table.parts)) for table in tables.values()))
        if wrong:
            raise AssertionError(f"the two tables differ in {wrong} rows")
        times = side_by_side({name: lambda table=table: _read(bench, table) for name, table in tables.items()}, rounds)
        detail = {name: [round(value, 3) for value in taken] for name, taken in times.items()}
        files = {f"files, {name}": _files(bench, table) for name, table in tables.items()}
        label = f"{bench.rows:,} rows after {commits} commits of {CHANGES:,} / written once"
    more = {"seconds of the commits": round(sum(spent), 1), **files}
    return [Measurement(label, ratio(times, TAKEN, WRITTEN), "x", TARGET, False, {**detail, **more})]


def _commit(bench: Lake, model: Model, turn: int) -> float:
    bench.append_changes(CHANGES / bench.rows, turn)
    refresh = Refresh.from_model(model, bench.reader, lambda: bench.spark)

    def follow() -> None:
        refresh.run_refresh()
        compact_if_due(refresh.table)

    taken = seconds(follow)
    if turn % 20 == 0:
        print(f"  commit {turn}: {taken:.2f} s, {_files(bench, model.table)} files", flush=True)
    return taken


def _read(bench: Lake, table: TableName) -> None:
    total(bench.spark.table(quoted(*table.parts)))


def _files(bench: Lake, table: TableName) -> int:
    files = observe_files(bench.reader, table)
    return sum(len(node.files) for node in files.file_groups) if files else 0
