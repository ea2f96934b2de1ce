"""An ingestion that goes on when a Spark Connect server has come back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError, SparkEnded
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.thresholds import ServiceThresholds
from dbt.adapters.arctic.commands.ingest_job import IngestJob
from tests.unit.adapter.commands.test_ingest import source

THRESHOLDS = ServiceThresholds(retry_seconds=0.01, source_retry_seconds=0.01)
BATCH: Any = object()
Runs = list[tuple[bool, bool, Collection[str]]]


@dataclass
class Ends:
    """Ingestions of which each ends in its own way: by an error, or because everything is ingested."""

    ends: list[Exception | None]
    writes: bool = False
    runs: Runs = field(default_factory=list)
    stops: int = 0

    def build(self, report: Callable[[Any], None]) -> Ends:
        self.report = report
        return self

    def run(self, once: bool, resync: bool = False, tables: Collection[str] = ()) -> None:
        self.runs.append((once, resync, tables))
        if self.writes:
            self.report(BATCH)
        if (error := self.ends.pop(0)) is not None:
            raise error

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture(autouse=True)
def _remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESS, "server", "sc://spark.internal")
    monkeypatch.setattr(PROCESS, "is_server_kept", False)


def job(ends: Ends, said: list[str] | None = None) -> IngestJob:
    shop: IngestSource = source("shop", "t")
    lines: list[str] = [] if said is None else said
    return IngestJob(shop, ends.build, lambda _: None, lines.append, THRESHOLDS)


def test_it_begins_again_until_the_server_has_come_back_and_says_so_each_time() -> None:
    ends, said = Ends([SparkEnded("Spark is gone."), SparkEnded("Spark is gone."), None]), list[str]()
    job(ends, said).run(False)
    assert ends.runs == [(False, False, ())] * 3
    assert said == ["source shop: Spark is gone.\n  tried again in 0 s"] * 2


@pytest.mark.parametrize(
    ("once", "error"), [(True, SparkEnded("Spark is gone.")), (False, ConfigError("no such table"))]
)
def test_it_ends_by_an_error_that_passes_by_nothing_that_it_could_wait_for(once: bool, error: Exception) -> None:
    ends = Ends([error])
    with pytest.raises(type(error)):
        job(ends).run(once)
    assert len(ends.runs) == 1


def test_it_ends_with_a_spark_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESS, "server", "")
    with pytest.raises(SparkEnded):
        job(Ends([SparkEnded("Spark is gone.")])).run(False)


@pytest.mark.parametrize("writes", [False, True])
def test_a_resync_is_begun_again_only_if_no_batch_came_before(writes: bool) -> None:
    ends = Ends([SparkEnded("Spark is gone."), None], writes)
    job(ends).run(False, True, ["t"])
    assert ends.runs == [(False, True, ["t"]), (False, False, ()) if writes else (False, True, ["t"])]


def test_a_stopped_one_does_not_begin() -> None:
    ends = Ends([None])
    stopped = job(ends)
    stopped.stop()
    stopped.run(False)
    assert ends.runs == []
