"""What a run costs beside the data: nothing new, little new, and the start of Spark."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from arctic_runtime.spark.engine.statement import fill_statement, quote_number
from benchmarks.measure import Measurement

MODELS = 20
_PROJECT = """name: overhead
version: "1.0"
profile: overhead
models:
  +materialized: arctic
  +primary_key: id
flags:
  send_anonymous_usage_stats: false
"""
_PROFILE = """overhead:
  target: dev
  outputs:
    dev: {type: arctic, schema: dwd, warehouse: ./warehouse, threads: 1}
"""
SOURCE = "select id, id % 7 as grp, cast(id as string) as name, id * 2 as amount from range(100000)"
_START = """
import sys, time
from pathlib import Path
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
began = time.perf_counter()
SparkEnvironment(Profile.for_embedded(Path(sys.argv[1]))).new_session()
print(time.perf_counter() - began)
"""


def measure(_rows: int, rounds: int = 3) -> list[Measurement]:
    """Seconds per model through dbt, and seconds until a session can be used, whatever the number of rows."""
    subprocess.run([sys.executable, "-m", "arctic_runtime.spark.jars"], check=True)
    starts = [_start_seconds() for _ in range(rounds)]
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
        idle, little = _through_dbt(Path(folder), rounds)
    return [
        Measurement("nothing new, seconds per model", statistics.median(idle), "s", 0.1, False, {"runs": idle}),
        Measurement(
            "1,000 changed of 100,000 rows, seconds per model",
            statistics.median(little),
            "s",
            3.0,
            False,
            {"runs": little},
        ),
        Measurement("start of Spark, embedded", statistics.median(starts), "s", 4.0, False, {"runs": starts}),
    ]


def _start_seconds() -> float:
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
        done = subprocess.run([sys.executable, "-c", _START, folder], capture_output=True, text=True, check=True)
    print(f"  start of Spark: {float(done.stdout):.2f} s", flush=True)
    return float(done.stdout)


def _through_dbt(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    write_project(folder)
    change_tables(folder, "create table lake.landing.source using iceberg as " + SOURCE)
    _per_model(folder)
    idle, little = [], []
    for turn in range(rounds + 1):
        sql = "update lake.landing.source set amount = amount + 1 where id % 100 = {turn}"
        change_tables(folder, fill_statement(sql, turn=quote_number(turn)))
        changed, unchanged = _per_model(folder), _per_model(folder)
        print(f"  {changed:.2f} s with 1,000 changed rows, {unchanged:.3f} s with nothing new", flush=True)
        if turn:
            little.append(changed)
            idle.append(unchanged)
    return idle, little


def write_project(folder: Path) -> None:
    """Writes a project with models of each kind, which read one table."""
    (folder / "models").mkdir()
    (folder / "dbt_project.yml").write_text(_PROJECT)
    (folder / "profiles.yml").write_text(_PROFILE)
    for n in range(MODELS):
        merge = "on_read" if n % 2 else "on_write"
        (folder / "models" / f"m{n}.sql").write_text(
            "{{ config(merge='" + merge + "') }} select id, grp, name, amount from lake.landing.source"
        )


def change_tables(folder: Path, sql: str) -> None:
    """Runs a statement on the warehouse of the project."""
    from arctic_runtime.profile import Profile
    from arctic_runtime.spark.engine.session import SparkEnvironment

    spark = SparkEnvironment(Profile.for_embedded(folder / "warehouse")).new_session()
    spark.sql("create namespace if not exists lake.landing").collect()
    spark.sql(sql).collect()


def _per_model(folder: Path) -> float:
    from dbt.cli.main import dbtRunner

    where = ["--project-dir", str(folder), "--profiles-dir", str(folder), "--log-path", str(folder / "logs")]
    outcome = dbtRunner().invoke(["--quiet", "--log-level", "none", "run", *where])
    if not outcome.success:
        raise RuntimeError(f"dbt run failed: {outcome.exception or outcome.result}")
    results = json.loads((folder / "target" / "run_results.json").read_text())["results"]
    return statistics.mean(result["execution_time"] for result in results)
