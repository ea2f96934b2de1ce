"""What a run costs beside its work: nothing to do against `dbt parse`, and little to do on a server that is kept."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import KEPT, Profile
from arctic_runtime.spark.engine import server
from benchmarks.commands import dbt
from benchmarks.measure import Measurement, seconds

MODELS = 20
ROWS = 10_000
NEW_ROWS = 100
_PROJECT = {
    "name": "startup",
    "version": "1.0",
    "profile": "startup",
    "models": {"+materialized": "arctic", "+primary_key": "id"},
    "flags": {"send_anonymous_usage_stats": False},
}


def measure(rounds: int = 3) -> list[Measurement]:
    """Whole processes, from the command to the prompt; 20 models over a table of 10,000 rows."""
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
        embedded = _embedded(Path(folder), rounds)
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
        return [*embedded, _rest(Path(folder), rounds)]


def _embedded(folder: Path, rounds: int) -> list[Measurement]:
    warehouse = {"warehouse": str(folder / "warehouse")}
    kept = Profile.for_embedded(folder / "warehouse", method="connect", url=KEPT)
    write_project(folder, {"kept": {**warehouse, "method": "connect", "url": KEPT}, "session": warehouse})
    source = _source(CatalogReader(kept))
    try:
        first = _told("first run, server and tables made", lambda: dbt(folder, "run", "kept"))
        little = [_little(folder, source, turn) for turn in range(1, rounds + 2)][1:]
    finally:
        server.stop_server(kept)
    return [
        Measurement(
            "a kept server: a run of 20 models with little to do, s per model",
            statistics.median(little) / MODELS,
            "s",
            2.0,
            False,
            {"runs": little, "first": first},
        ),
        nothing_new(folder, "session", "embedded", rounds),
    ]


def _rest(folder: Path, rounds: int) -> Measurement:
    """The same without work, in a catalog that a process of its own serves."""
    serving = [sys.executable, "-m", "tests.rest_catalog", str(folder / "warehouse")]
    with subprocess.Popen(serving, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as catalog:
        assert catalog.stdout is not None
        place = {"type": "rest", "uri": catalog.stdout.readline().strip(), "warehouse": str(folder / "warehouse")}
        write_project(folder, {"rest": {"catalog_config": place}})
        _source(CatalogReader(Profile("lake", place)))
        _told("first run, tables made", lambda: dbt(folder, "run", "rest"))
        figures = nothing_new(folder, "rest", "REST catalog", rounds)
        catalog.terminate()
    return figures


def nothing_new(folder: Path, target: str, what: str, rounds: int) -> Measurement:
    """How much longer a run without work takes than parsing the project; it finds no Java that it could start."""
    without_java = {**os.environ, "JAVA_HOME": str(folder / "no-java")}
    taken: dict[str, list[float]] = {"parse": [], "run": []}
    for turn in range(rounds + 1):
        for command, times in taken.items():
            spent = _told(command, partial(dbt, folder, command, target, without_java))
            times.extend([spent] if turn else [])
    extra = [run - parse for parse, run in zip(taken["parse"], taken["run"], strict=True)]
    metric = f"nothing new, {what}: a run of 20 models beside dbt parse"
    return Measurement(metric, statistics.median(extra), "s", 1.5, False, taken)


def write_project(folder: Path, targets: Mapping[str, Mapping[str, Any]]) -> None:
    """Twenty models over one table, merged on write and on read in turn, and a profile."""
    common = {"type": "arctic", "schema": "dwd", "threads": 1}
    outputs = {name: {**common, **target} for name, target in targets.items()}
    (folder / "models").mkdir()
    (folder / "dbt_project.yml").write_text(yaml.safe_dump(_PROJECT))
    (folder / "profiles.yml").write_text(
        yaml.safe_dump({"startup": {"target": next(iter(targets)), "outputs": outputs}})
    )
    for n in range(MODELS):
        config = "{{ config(merge='" + ("on_read" if n % 2 else "on_write") + "') }}"
        (folder / "models" / f"m{n}.sql").write_text(f"{config} select id, name, amount from lake.landing.source")


def rows(first: int, count: int) -> pa.Table:
    """Rows of the source, with keys from `first` on."""
    ids = range(first, first + count)
    return pa.table({"id": list(ids), "name": [f"name {i}" for i in ids], "amount": [i * 2 for i in ids]})


def _source(reader: CatalogReader) -> Any:
    reader.create_namespace("landing")
    content = rows(0, ROWS)
    table = reader.catalog.create_table(("landing", "source"), content.schema)
    table.append(content)
    return table


def _little(folder: Path, source: Any, turn: int) -> float:
    source.append(rows(ROWS + turn * NEW_ROWS, NEW_ROWS))
    return _told(f"{NEW_ROWS} new rows", lambda: dbt(folder, "run", "kept"))


def _told(what: str, action: Callable[[], object]) -> float:
    taken = seconds(action)
    print(f"  {what}: {taken:.2f} s", flush=True)
    return taken
