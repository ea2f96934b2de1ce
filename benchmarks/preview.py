"""The price that `arctic preview` tells for the next run of a model, against the bytes and seconds that the run takes.

Bytes read are those that Java reads, of tables and their metadata, without those of shuffles: Spark's own count leaves
out reads of several ranges at once. Bytes written are those of the files that the run's commits added. Runs are first
runs, runs after a change of 1% of the rows, and runs after an edit of the query. The time of the command is that of a
project of 200 models, of which an edit touches a layer and all below it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.model.table import Model
from arctic_runtime.operations.preview_walk import PreviewWalk
from arctic_runtime.plan.preview.preview import ModelPreview
from arctic_runtime.profile import Profile
from benchmarks.commands import dbt
from benchmarks.lake import Lake, events_model, lake, query_model
from benchmarks.layers import SUMS, customers, join
from benchmarks.many_models import write_project
from benchmarks.measure import Measurement, seconds
from benchmarks.night import build_orders
from benchmarks.process import Process
from benchmarks.tpch import change_tables, generate_tables, land_events, name_table
from benchmarks.tpch_models import KEYS, keyed_table, questions

SETTINGS = {"spark.driver.memory": "3g", "spark.ui.liveUpdate.period": "0"}
"""Spark shows its counts at once."""

SCALE = 0.1
"""Scale factor of TPC-H."""

ASKED = (1, 3, 4, 6, 10, 12, 14)
"""Queries of TPC-H that are models here."""

MODELS, ROWS, EDITED = 200, 1_000, "m0"
MOST_ERROR, MOST_SECONDS = 25.0, 5.0


@dataclass(frozen=True)
class Judged:
    """A run of a model: what was predicted for it, and what it took."""

    model: str
    way: str
    predicted: tuple[float, float, float]
    """Bytes read, bytes written, and seconds."""

    actual: tuple[float, float, float]

    @property
    def bytes_error(self) -> float:
        """The error of the bytes that are read and written together, in percent of the actual ones."""
        predicted, actual = sum(self.predicted[:2]), sum(self.actual[:2])
        return 100 * abs(predicted - actual) / max(actual, 1.0)

    @property
    def seconds_error(self) -> float:
        return 100 * abs(self.predicted[2] - self.actual[2]) / self.actual[2]


def measure(rows: int) -> list[Measurement]:
    """The median errors of bytes and seconds over all runs, and the seconds of the command for many models."""
    judged = [*_judge_layers(rows // 10), *_judge_tpch()]
    print(_describe(judged), flush=True)
    errors = {"bytes": [run.bytes_error for run in judged], "seconds": [run.seconds_error for run in judged]}
    detail = {f"{place} {run.model} {run.way}": [run.predicted, run.actual] for place, run in enumerate(judged)}
    taken = measure_command()
    return [
        Measurement(
            "preview: median error of bytes", statistics.median(errors["bytes"]), "%", MOST_ERROR, False, detail
        ),
        Measurement("preview: median error of seconds", statistics.median(errors["seconds"]), "%", None, False),
        Measurement(f"preview: command, {MODELS} models", taken, "s", MOST_SECONDS, False),
    ]


class Judge:
    """Runs models of a lake, and compares each run with the preview before it."""

    def __init__(self, bench: Lake) -> None:
        self._bench = bench
        self._context = bench.spark.sparkContext._jsc.sc()
        self._java = Process.java()
        self.runs: list[Judged] = []

    def run(self, model: Model, *below: Model) -> None:
        """Previews a model and models below it, then runs them one after the other."""
        models = (model, *below)
        previews = PreviewWalk(self._bench.reader, models).preview_models([model.table])
        known = {preview.table: preview for preview in previews}
        for each in models:
            self._judge(each, known[each.table])

    def _judge(self, model: Model, known: ModelPreview) -> None:
        read, before = self._count_read(), self._list_written(model)
        start = time.perf_counter()
        outcome = self._bench.run(model)
        taken = time.perf_counter() - start
        written = sum(size for snapshot, size in self._list_written(model).items() if snapshot not in before)
        amounts = known.amounts
        run = Judged(
            model.table.name,
            f"{outcome.mode} {outcome.reason}",
            (amounts.bytes_read.expected, amounts.bytes_written.expected, amounts.seconds.expected),
            (self._count_read() - read, written, taken),
        )
        print(f"  {_describe_run(run)}", flush=True)
        if outcome.mode != "unchanged":
            self.runs.append(run)

    def _count_read(self) -> int:
        """Number of bytes that Java has read of files so far, without those of shuffles."""
        self._context.listenerBus().waitUntilEmpty()
        executors = self._context.statusStore().executorList(False)
        shuffled = sum(executors.apply(place).totalShuffleRead() for place in range(executors.size()))
        return self._java.bytes_read - int(shuffled)

    def _list_written(self, model: Model) -> dict[int, int]:
        """Maps each snapshot of a model's tables to the bytes of the files that it added."""
        tables = (find_table(self._bench.reader, name) for name in (model.table, *model.table.helper_tables.values()))
        snapshots = [snapshot for table in tables if table is not None for snapshot in table.snapshots()]
        return {
            snapshot.snapshot_id: int(snapshot.summary.additional_properties.get("added-files-size", 0))
            for snapshot in snapshots
            if snapshot.summary is not None
        }


def _judge_layers(rows: int) -> Sequence[Judged]:
    """Judges a join, sums over it, and a filter, on facts that follow events; then edits of them."""
    print(f" layers of {rows:,} rows", flush=True)
    with lake(rows, SETTINGS) as bench:
        bench.fill_events()
        facts = events_model("facts")
        joined = query_model("joined", join(facts.table), "id")
        sums = query_model("sums", SUMS, ["city", "b"])
        few = query_model("few", "select id, a, b from lake.bench.facts where a % 2 = 0", "id")
        viewed = query_model("viewed", join(facts.table), "id", merge="on_read")
        models = (facts, customers(bench), joined, sums, few, viewed)
        judge = Judge(bench)
        for turn in range(4):
            if turn:
                bench.append_changes(0.01, turn)
            for model in models:
                judge.run(model)
        for turn in (1, 2):
            moved = replace(joined, sql=joined.sql.replace("c.city", f"concat(c.city, '{turn}') as city"))
            judge.run(moved, sums)
            judge.run(replace(few, sql=few.sql.replace("id, a", f"id, a + {turn} as a")))
        return judge.runs


def _judge_tpch() -> Sequence[Judged]:
    """Judges queries of TPC-H: first runs, then two batches of changes."""
    print(f" TPC-H at {SCALE:g}", flush=True)
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder, lake(0, SETTINGS) as bench:
        texts, columns = generate_tables(Path(folder), SCALE)
        tables = [keyed_table(name_table, table, columns[table]) for table in KEYS]
        for model in tables:
            land_events(bench, Path(folder), model.table.name)
            bench.run(model)
        models = [one.model(name_table) for one in questions(texts, name_table) if one.number in ASKED]
        judge = Judge(bench)
        for turn in range(3):
            if turn:
                change_tables(bench, tables, turn)
            for model in models:
                judge.run(model)
        return judge.runs


def measure_command() -> float:
    """Seconds of `arctic preview` for an edit in a project of many models, as a command of its own."""
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as place:
        folder = Path(place)
        write_project(folder, MODELS)
        reader = CatalogReader(Profile.for_embedded(folder / "warehouse"))
        reader.create_namespace("landing")
        orders = reader.catalog.create_table(("landing", "orders"), build_orders(0, ROWS).schema)
        orders.append(build_orders(0, ROWS))
        dbt(folder, "run", "arctic")
        file = folder / "models" / f"{EDITED}.sql"
        file.write_text(file.read_text().replace("customer,", "customer + 1 as customer,"))
        command = [sys.executable, "-m", "dbt.adapters.arctic.command_line", "preview", "--project-dir", str(folder)]
        command += ["--profiles-dir", str(folder), "--json"]
        environment = {**os.environ, "DBT_TARGET_PATH": "target-arctic"}  # Where dbt has parsed the project.
        run = partial(subprocess.run, command, check=True, capture_output=True, text=True, env=environment)
        taken = [seconds(run) for _ in range(3)]
        shown = json.loads(run().stdout)
    print(f"  {shown['total']['models']} of {MODELS} models touched: {', '.join(f'{one:.1f} s' for one in taken)}")
    return statistics.median(taken)


def _describe(judged: Sequence[Judged]) -> str:
    """A line for each run: bytes and seconds, predicted and actual."""
    head = f"{'model':<10}{'way':<26}{'read, MB':>22}{'written, MB':>22}{'error':>8}{'seconds':>16}{'error':>8}"
    return "\n".join([head, *map(_describe_run, judged)])


def _describe_run(run: Judged) -> str:
    read, written = (f"{run.predicted[n] / 1e6:9.3f} / {run.actual[n] / 1e6:9.3f}" for n in (0, 1))
    taken = f"{run.predicted[2]:6.1f} / {run.actual[2]:6.1f}"
    errors = (f"{run.bytes_error:7.0f}%", f"{run.seconds_error:7.0f}%")
    return f"{run.model:<10}{run.way:<26}{read:>22}{written:>22}{errors[0]}{taken:>16}{errors[1]}"
