"""How old rows are when the last of three layers shows them: under a service, and under `dbt run` in a loop."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from arctic_runtime.spark.engine.session_pool import get_pool
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.measure import Measurement
from benchmarks.served import LiveProject, ModelText, project_in, served, write_project

EVENTS_A_SECOND, CUSTOMERS, WARM_UP_SECONDS = 200, 1000, 60
MOST_SECONDS, LEAST_RATIO = 12.0, 3.0
SOURCES = "sources: [{name: raw, schema: ods, tables: [{name: events}, {name: customers}]}]"
MODELS: Mapping[str, ModelText] = {
    "orders": ({"primary_key": "id"}, "select id, batch, customer, amount, kind from {{ source('raw', 'events') }}"),
    "customers": ({"primary_key": "customer"}, "select customer, city from {{ source('raw', 'customers') }}"),
    "paid": (
        {"primary_key": "id"},
        "select o.id, o.batch, o.amount, c.city from {{ ref('orders') }} o "
        "join {{ ref('customers') }} c on o.customer = c.customer where o.kind <> 'x'",
    ),
    "large": ({"primary_key": "id"}, "select id, batch, customer, amount from {{ ref('orders') }} where amount > 50"),
    "by_batch": ({"primary_key": "batch"}, "select batch, count(*) as n from {{ ref('paid') }} group by batch"),
    "by_city": (
        {"primary_key": "city"},
        "select city, count(*) as n, sum(amount) as amount from {{ ref('paid') }} group by city",
    ),
    "by_customer": (
        {"primary_key": "customer"},
        "select customer, max(amount) as most from {{ ref('large') }} group by customer",
    ),
    "cities_of_large": (
        {"primary_key": "city"},
        "select c.city, count(*) as n from {{ ref('large') }} l "
        "join {{ ref('customers') }} c on l.customer = c.customer group by c.city",
    ),
}
"""Model → configuration and query; the last four are the third layer."""


def measure(minutes: float) -> list[Measurement]:
    """The delay of each second's rows, from their commit to the source until the last layer shows them."""
    delays = {}
    for way, run in (("serve", served), ("dbt run", _run_in_a_loop)):
        with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
            write_project(Path(folder), SOURCES, MODELS)
            delays[way] = _delays(Path(folder), run, minutes * 60)
        print(f"  {way}: median {statistics.median(delays[way]):.1f} s, {len(delays[way])} commits", flush=True)
    ordered = sorted(delays["serve"])
    late = ordered[int(0.95 * (len(ordered) - 1))]
    ratio = statistics.median(delays["dbt run"]) / statistics.median(delays["serve"])
    detail = {"median": statistics.median(ordered), "commits": len(ordered)}
    return [
        Measurement("live_delay: 95th percentile", late, "s", MOST_SECONDS, False, detail),
        Measurement("live_delay: dbt run in a loop / serve", ratio, "x", LEAST_RATIO, True, {}),
    ]


def _delays(folder: Path, run: Callable[[LiveProject], AbstractContextManager[None]], seconds: float) -> list[float]:
    project = project_in(folder)
    pool = get_pool(project.loaded.profile)
    spark = pool.take_session()
    spark.sql("create namespace if not exists ods")
    spark.range(CUSTOMERS).selectExpr("cast(id as int) as customer", "concat('c', id % 20) as city").writeTo(
        "ods.customers"
    ).create()
    events = _events(spark, 0).writeTo("ods.events")
    events.create()
    with run(project):
        for number in range(1, round(WARM_UP_SECONDS + seconds)):
            began = time.monotonic()
            _events(spark, number).writeTo("ods.events").append()
            time.sleep(max(0.0, began + 1 - time.monotonic()))
        _wait_for_last(spark)
    found = _measured(project, spark)
    pool.environment.stop_spark()
    return found


def _events(spark: Any, number: int) -> Any:
    first = number * EVENTS_A_SECOND
    rows = spark.range(first, first + EVENTS_A_SECOND, 1, 1)
    return rows.selectExpr(
        "id", f"{number} as batch", f"cast(id * 7 % {CUSTOMERS} as int) as customer", "id % 100 as amount",
        "'a' as kind",
    )  # fmt: skip


@contextmanager
def _run_in_a_loop(project: LiveProject) -> Iterator[None]:
    """As a loop in a shell does it: a process for each run."""
    folder = project.loaded.location.project_dir
    ending = threading.Event()
    dbt = [sys.executable, "-c", "from dbt.cli.main import cli; cli()", "--quiet", "run"]
    command = [*dbt, "--project-dir", str(folder), "--profiles-dir", str(folder)]

    def loop() -> None:
        while not ending.is_set():
            subprocess.run(command, check=True)

    running = threading.Thread(target=loop)
    running.start()
    try:
        yield
    finally:
        ending.set()
        running.join()


def _wait_for_last(spark: Any) -> None:
    """Until the last layer has all that the source has."""
    wanted = spark.table("ods.events").count()
    end = time.monotonic() + 300
    while not _is_shown(spark, wanted):
        if time.monotonic() > end:
            raise RuntimeError("the last layer did not come to show all rows")
        time.sleep(1)


def _is_shown(spark: Any, rows: int) -> bool:
    exists = spark.catalog.tableExists("dws.by_batch")
    return exists and spark.table("dws.by_batch").agg({"n": "sum"}).collect()[0][0] == rows


def _measured(project: Any, spark: Any) -> list[float]:
    """Seconds from each commit to the source to the first one of the last layer with its rows, after the warm-up."""
    reader = project.reader
    appended = [of.timestamp_ms for of in reader.load_table("ods", "events").metadata.snapshots]
    shown = reader.load_table("dws", "by_batch__changes").metadata.snapshots
    times = {of.sequence_number: of.timestamp_ms for of in shown}
    log = spark.table(quoted(reader.profile.catalog, "dws", "by_batch__changes"))
    rows = log.where("_action <> 'delete'").selectExpr("batch", "_last_updated_sequence_number as at").collect()
    first: dict[int, int] = {}
    for row in rows:
        first[row.batch] = min(first.get(row.batch, times[row.at]), times[row.at])
    measured: Sequence[int] = sorted(appended)[WARM_UP_SECONDS:]
    numbers = range(WARM_UP_SECONDS, WARM_UP_SECONDS + len(measured))
    return [(first[number] - at) / 1000 for number, at in zip(numbers, measured, strict=True) if number in first]
