"""`arctic sql` beside the same query in a Spark that it has to start: whole processes, in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, StringType

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import Profile
from benchmarks.measure import Measurement, side_by_side

QUERIES = {
    "filter on the key": ("select * from big where id = {middle}", 0.2),
    "group by": ("select region, count(*) n, sum(amount) s from big group by region order by region", 0.5),
}
MOST_SECONDS = 1.5
ROUNDS = 2
COMMITS = 20

_FIELDS = (
    NestedField(1, "id", LongType()),
    NestedField(2, "region", StringType()),
    NestedField(3, "amount", DecimalType(12, 2)),
    NestedField(4, "weight", DoubleType()),
)
_FILES = {
    "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\n",
    "profiles.yml": "shop: {{target: dev, outputs: {{dev: {{type: arctic, schema: dwd, warehouse: {warehouse}}}}}}}",
    "models/big.sql": "{{{{ config(materialized='arctic', primary_key='id') }}}} select 1 as id",
    "target/.keep": "",
}


def measure(rows: int) -> list[Measurement]:
    """The ratios of whole processes, and the seconds until the first answer of a new process."""
    with tempfile.TemporaryDirectory(prefix="arctic-bench-") as name:
        folder = Path(name)
        _write_project(folder)
        _fill_table(folder / "warehouse", rows)
        _ask(folder, "select 1", "duckdb")  # The first command compiles the project, and later ones start without dbt.
        return [*_measure_queries(folder, rows), _measure_start(folder)]


def _measure_queries(folder: Path, rows: int) -> list[Measurement]:
    measured = []
    for name, (template, target) in QUERIES.items():
        query = template.format(middle=rows // 2)
        answers = {engine: _ask(folder, query, engine) for engine in ("duckdb", "spark")}
        if answers["duckdb"] != answers["spark"]:
            raise RuntimeError(f"the answers differ: {answers}")
        actions = {engine: partial(_ask, folder, query, engine) for engine in answers}
        times = side_by_side(actions, ROUNDS)
        value = statistics.median(times["duckdb"]) / statistics.median(times["spark"])
        measured.append(
            Measurement(f"arctic sql, {rows:,} rows, {name} / cold Spark", value, "x", target, False, dict(times))
        )
    return measured


def _measure_start(folder: Path) -> Measurement:
    times = side_by_side({"first": lambda: _ask(folder, "select max(id) from big where id < 10", "duckdb")}, ROUNDS)
    return Measurement("arctic sql, first answer", statistics.median(times["first"]), "s", MOST_SECONDS, False)


def _ask(folder: Path, query: str, engine: str) -> str:
    command = [sys.executable, "-m", "dbt.adapters.arctic.command_line", "sql", query, "--engine", engine]
    where = ["--project-dir", str(folder), "--profiles-dir", str(folder), "--format", "csv"]
    # As after an installation, Python keeps what it has compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    done = subprocess.run(
        [*command, *where], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{query} failed:\n{done.stderr}")
    return done.stdout


def _write_project(folder: Path) -> None:
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.format(warehouse=folder / "warehouse"))


def _fill_table(warehouse: Path, rows: int) -> None:
    warehouse.mkdir()
    reader = CatalogReader(Profile.for_embedded(warehouse))
    reader.create_namespace("dwd")
    table = reader.catalog.create_table(("dwd", "big"), Schema(*_FIELDS))
    for commit in range(COMMITS):
        ids = pa.array(range(commit * rows // COMMITS, (commit + 1) * rows // COMMITS), pa.int64())
        cents = pc.subtract(ids, pc.multiply(pc.divide(ids, 100_000), 100_000))
        regions = pc.binary_join_element_wise("r", pc.cast(pc.divide(cents, 6_000), pa.string()), "")
        amounts = pc.cast(cents, pa.decimal128(21, 0)).cast(pa.decimal128(12, 2))
        columns = [ids, regions, amounts, pc.multiply(pc.cast(ids, pa.float64()), 0.5)]
        table.append(pa.table(columns, schema=table.schema().as_arrow()))
