"""The ingestion of one source by `arctic ingest`, which goes on when a Spark Connect server has come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from arctic_runtime.errors import SparkEnded
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.service.refreshing.model_records import compute_source_pause
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.spark_loss import to_spark_ended
from arctic_runtime.thresholds import ServiceThresholds

if TYPE_CHECKING:
    from arctic_runtime.ingest.job.reports import BatchReport

Report = Callable[["BatchReport"], None]


class Ingesting(Protocol):
    """An ingestion, which runs once."""

    def run(self, once: bool, resync: bool = False, tables: Collection[str] = ()) -> None: ...

    def stop(self) -> None: ...


class IngestJob:
    """Ingests a source until `stop`; if a server of others was lost, begins again with new sessions after a pause.

    `build` creates an ingestion that reports its batches to the given function, `report` takes them, and `say` shows a
    line to people.
    """

    def __init__(
        self,
        source: IngestSource,
        build: Callable[[Report], Ingesting],
        report: Report,
        say: Callable[[str], None],
        thresholds: ServiceThresholds,
    ) -> None:
        self.source = source
        self._build = build
        self._report = report
        self._say = say
        self._thresholds = thresholds
        self._stopping = threading.Event()
        self._job: Ingesting | None = None
        self._has_written = False

    def run(self, once: bool, resync: bool = False, tables: Collection[str] = ()) -> None:
        """Ingests as `Ingestion.run` does, whose errors it raises; with `once` it also ends if a server was lost.

        A resync is not begun another time once the source has got a batch: what is left of it is known by then.
        """
        failures = 0
        while not self._stopping.is_set():
            began, requested = time.monotonic(), () if self._has_written else tables
            try:
                self._run_once(once, resync and not self._has_written, requested)
                return
            except Exception as error:
                end = to_spark_ended(error)
                if once or end is None or not PROCESS.can_reconnect:
                    raise
                is_steady = time.monotonic() - began > self._thresholds.steady_seconds
                failures = 1 if is_steady else failures + 1
                self._pause(end, compute_source_pause(failures, self._thresholds))

    def stop(self) -> None:
        """Stops `run` after the current batch; can be called from another thread."""
        self._stopping.set()
        if self._job is not None:
            self._job.stop()

    def _run_once(self, once: bool, resync: bool, tables: Collection[str]) -> None:
        self._job = self._build(self._report_batch)
        if not self._stopping.is_set():
            self._job.run(once, resync, tables)

    def _report_batch(self, batch: BatchReport) -> None:
        self._has_written = True
        self._report(batch)

    def _pause(self, end: SparkEnded, seconds: float) -> None:
        self._say(f"source {self.source.name}: {end}\n  tried again in {seconds:.0f} s")
        self._stopping.wait(seconds)
