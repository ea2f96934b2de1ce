"""What following models costs where nothing is new."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.profile import Profile
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.refresh_task import Refresher, RefreshListeners, RefreshWorkers, Report
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.spark.engine.session_pool import SessionPool
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, quote_number
from benchmarks.measure import Measurement

SOURCES, FIRST, SECOND, THIRD = 5, 20, 40, 40
MOST_SECONDS = 0.3
LOOKS = 20


def measure() -> list[Measurement]:
    """Seconds of the processor for one look over a hundred models that are up to date."""
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
        pool = SessionPool(Profile.for_embedded(Path(folder) / "warehouse"))
        reader = CatalogReader(pool.environment.profile)
        _make_sources(pool)
        failed: list[Report] = []

        def report(report: Report) -> None:
            if report.error:
                failed.append(report)

        workers = RefreshWorkers(Refresher(reader, pool, lambda _: ()), 2)
        with Follower(SharedState(reader), workers, RefreshListeners(report=report)) as follower:
            follower.follow_models(models := list(_models()))
            follower.run_once()
            follower.run_once()
            if failed:
                raise RuntimeError(failed[0].error)
            spent = [_processor_seconds(follower) for _ in range(LOOKS)]
    print(f"  {len(models)} models: {statistics.median(spent):.4f} s a look, {max(spent):.4f} at most", flush=True)
    label = f"a look over {len(models)} models with nothing new"
    return [Measurement(label, statistics.median(spent), "s", MOST_SECONDS, False, {"looks": spent})]


def _processor_seconds(follower: Follower) -> float:
    before = time.process_time()
    follower.run_once()
    return time.process_time() - before


def _make_sources(pool: SessionPool) -> None:
    spark = pool.take_session()
    spark.sql("create namespace if not exists lake.shop").collect()
    for n in range(SOURCES):
        sql = "create table {table} using iceberg as select id, id % 7 as grp, id * {factor} as v from range(1000)"
        spark.sql(
            str(fill_statement(sql, table=quote_name("lake", "shop", f"s{n}"), factor=quote_number(n + 1)))
        ).collect()
    pool.give_back(spark)


def _models() -> Iterator[FollowedModel]:
    """Copies of sources, joins of two of these, and sums of the joins; every second one merged on read."""
    for n in range(FIRST):
        yield _model(f"a{n}", f"select id, grp, v from lake.shop.s{n % SOURCES} where id % {FIRST} <> {n}", "id", n)
    for n in range(SECOND):
        left, right = n % FIRST, (n + 1) % FIRST
        sql = f"select l.id, l.grp, l.v + r.v as v from lake.shop.a{left} l join lake.shop.a{right} r on l.id = r.id"
        yield _model(f"b{n}", sql, "id", n)
    for n in range(THIRD):
        yield _model(f"c{n}", f"select grp, sum(v) as v, count(*) as n from lake.shop.b{n} group by grp", "grp", n)


def _model(table: str, sql: str, key: str, n: int) -> FollowedModel:
    config = read_configuration({"primary_key": key, "merge": "on_read" if n % 2 else "on_write"}, table)
    return FollowedModel(Model(TableName("lake", "shop", table), sql, config), table)
