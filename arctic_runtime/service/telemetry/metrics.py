"""Prometheus metrics of a service: gauges read at the time of a request, and counters of the service's events."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone

import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from typing_extensions import Self

from arctic_runtime.service.telemetry.declared_metrics import (
    COUNTERS,
    ENDED,
    GAUGES,
    HISTOGRAMS,
    MISSED,
    Counter,
    Histogram,
    ServiceSnapshot,
)
from arctic_runtime.service.view.event_log import Event
from arctic_runtime.service.view.live_data import LiveService
from arctic_runtime.thresholds import ServiceThresholds


def _get_now() -> datetime:
    return datetime.now(timezone.utc)


class Tally:
    """Counts events for counters and histograms; the end of a job is counted once, even if it is reported twice.

    It is used by one thread at a time, apart from `list_families`, which any thread may call.
    """

    def __init__(self, remembered_jobs: int) -> None:
        # Times of creation would be one more line for each line of a counter.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._remembered_jobs = remembered_jobs
        self._counters = [
            (counter, prometheus_client.Counter(counter.name, counter.meaning, counter.labels, registry=None))
            for counter in COUNTERS
        ]
        self._missed = prometheus_client.Counter(MISSED.name, MISSED.meaning, registry=None)
        self._histograms = [
            (
                histogram,
                prometheus_client.Histogram(
                    histogram.name, histogram.meaning, histogram.labels, registry=None, buckets=histogram.buckets
                ),
            )
            for histogram in HISTOGRAMS
        ]
        self._ended: OrderedDict[str, None] = OrderedDict()

    def count_event(self, event: Event) -> None:
        if self._is_repeated(event):
            return
        for counter, counted in self._counters:
            for labels, amount in counter.count(event):
                counted.labels(*labels).inc(amount)
        for histogram, observed in self._histograms:
            for labels, value in histogram.observe(event):
                observed.labels(*labels).observe(value)

    def count_missed(self, count: int) -> None:
        """Adds `count` events that were dropped before they could be counted."""
        self._missed.inc(count)

    def list_families(self, snapshot: ServiceSnapshot) -> Iterator[Metric]:
        metrics: tuple[tuple[Counter | Histogram, prometheus_client.Counter | prometheus_client.Histogram], ...]
        metrics = (*self._counters, *self._histograms)
        for declared, metric in metrics:
            for labels in declared.expected(snapshot):
                metric.labels(*labels)
            yield from metric.collect()
        yield from self._missed.collect()

    def _is_repeated(self, event: Event) -> bool:
        if event.kind != "job" or event.data.state not in ENDED:
            return False
        number = event.data.number
        is_known = number in self._ended
        self._ended[number] = None
        if len(self._ended) > self._remembered_jobs:
            self._ended.popitem(last=False)
        return is_known


class ServiceCollector:
    """A collector for prometheus_client that reads the service's state at each request."""

    def __init__(self, service: LiveService, tally: Tally, clock: Callable[[], datetime]) -> None:
        self._service = service
        self._tally = tally
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        service = self._service
        snapshot = ServiceSnapshot(
            self._clock(), service.get_state(), service.list_tables(), service.list_jobs(), service.list_upkeep()
        )
        for gauge in GAUGES:
            family = GaugeMetricFamily(gauge.name, gauge.meaning, labels=gauge.labels)
            for labels, value in gauge.read(snapshot):
                family.add_metric(labels, value)
            yield family
        yield from self._tally.list_families(snapshot)

    def describe(self) -> Iterable[Metric]:
        """Returns no metrics, so that prometheus_client does not call `collect` at registration."""
        return ()


class Metrics:
    """Metrics of a service: counts the service's events between `__enter__` and `__exit__`, in a thread of its own.

    Counters begin at 0 when the process starts, as Prometheus expects, and never decrease after that.
    """

    def __init__(
        self, service: LiveService, thresholds: ServiceThresholds, clock: Callable[[], datetime] = _get_now
    ) -> None:
        self._service = service
        self._wait_seconds = thresholds.event_wait_seconds
        self._tally = Tally(thresholds.remembered_jobs)
        self._registry = CollectorRegistry()
        self._registry.register(ServiceCollector(service, self._tally, clock))
        ProcessCollector(registry=self._registry)
        self._last = service.events.last
        self._ending = threading.Event()
        self._reading = threading.Lock()
        self._thread = threading.Thread(target=self._follow_events, name="metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def counted(self) -> int:
        """Number of the newest event that has been counted."""
        return self._last

    def format_metrics(self, accept: str = "") -> tuple[bytes, str]:
        """Returns the metrics in the format that the Accept header `accept` requests, and their content type."""
        self._count_new_events()
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _follow_events(self) -> None:
        while not self._ending.is_set():
            self._service.events.wait_after(self._last, self._wait_seconds)
            self._count_new_events()

    def _count_new_events(self) -> None:
        """Counts the events since the last call; only one thread at a time."""
        with self._reading:
            events, missed = self._service.events.wait_after(self._last)
            if missed:
                self._tally.count_missed(missed)
            for event in events:
                self._tally.count_event(event)
            if events:
                self._last = events[-1].number
