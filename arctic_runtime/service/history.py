"""Samples the freshness and the rows of all tables, so that people see how these were over the last days.

The leader takes a sample each quarter of an hour, and keeps it for two weeks in the service's table; see
`catalog/table_samples.py` for the form. The cost is one small commit for each sample, not for each table, and the size
is bounded by the number of tables and the time. If a sample can't be written, another one is taken soon after.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone

from arctic_runtime.catalog.table_samples import TableSample, TableSamples, get_day
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.service.view.live_data import TableOverview
from arctic_runtime.spark.engine.messages import get_message

PART = "history"
"""Name under which the service shows that samples can't be written."""


class TableHistory:
    """Takes samples of the tables that `list_tables` returns, and stores them."""

    def __init__(
        self, samples: TableSamples, shared: SharedState, list_tables: Callable[[], Sequence[TableOverview]]
    ) -> None:
        self._samples = samples
        self._shared = shared
        self._list_tables = list_tables
        self._thresholds = shared.reader.thresholds.service
        self._today: list[TableSample] | None = None

    def run_until(self, over: threading.Event) -> None:
        """Takes a sample at intervals until `over` is set; after a restart, the interval since the last one counts."""
        self._today = None
        while not over.is_set():
            over.wait(self.perform_sample(datetime.now(timezone.utc)))
        self._shared.set_error(PART, "")

    def perform_sample(self, now: datetime) -> float:
        """Takes and stores a sample if one is due, and returns the seconds until the next one.

        An error is shown as that of a part of the service.
        """
        try:
            pause = self._sample_if_due(now)
        except Exception as error:
            self._shared.report_error(PART, get_message(error))
            return self._thresholds.lease_renewal_seconds
        self._shared.report_error(PART, "")
        return pause

    def _sample_if_due(self, now: datetime) -> float:
        if self._today is None:
            self._today = self._samples.read_samples(get_day(now))
        seconds = self._thresholds.sample_seconds
        last = self._today[-1].sampled_at if self._today else None
        if last is not None and timedelta() <= now - last < timedelta(seconds=seconds):
            return seconds - (now - last).total_seconds()
        taken = list(list_samples(self._list_tables(), now))
        if not taken:
            return self._thresholds.lease_poll_seconds
        today = [sample for sample in self._today if sample.sampled_at >= get_day(now)] + taken
        self._samples.replace_days(today, now - timedelta(days=self._thresholds.sample_days))
        self._today = today
        return seconds


def list_samples(tables: Sequence[TableOverview], now: datetime) -> Iterator[TableSample]:
    """Yields a sample of each table whose freshness is known to the service."""
    for table in tables:
        if table.freshness is not None:
            as_of = table.freshness.as_of
            stale = None if as_of is None else max(0.0, round((now - as_of).total_seconds(), 1))
            yield TableSample(now, str(table.table), table.rows, stale, table.state)
