"""Prometheus metrics of a service: gauges read at the time of a request, and counters of the service's events."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
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

_Labels = tuple[str, ...]


def _get_now() -> datetime:
    return datetime.now(timezone.utc)


class Tally:
    """Counts events for counters and histograms; the end of a job is counted once, even if it is reported twice."""

    def __init__(self, remembered_jobs: int) -> None:
        self._remembered_jobs = remembered_jobs
        self._counting = threading.Lock()
        self._counts: dict[str, dict[_Labels, float]] = {metric.name: {} for metric in (*COUNTERS, MISSED)}
        self._observed: dict[str, dict[_Labels, _Distribution]] = {metric.name: {} for metric in HISTOGRAMS}
        self._ended: OrderedDict[str, None] = OrderedDict()

    def count_event(self, event: Event) -> None:
        with self._counting:
            if self._is_repeated(event):
                return
            for counter in COUNTERS:
                counts = self._counts[counter.name]
                for labels, amount in counter.count(event):
                    counts[labels] = counts.get(labels, 0.0) + amount
            for histogram in HISTOGRAMS:
                distributions = self._observed[histogram.name]
                for labels, value in histogram.observe(event):
                    distributions.setdefault(labels, _Distribution(histogram.buckets)).add_value(value)

    def count_missed(self, count: int) -> None:
        """Adds `count` events that were dropped before they could be counted."""
        with self._counting:
            counts = self._counts[MISSED.name]
            counts[()] = counts.get((), 0.0) + count

    def list_families(self, snapshot: ServiceSnapshot) -> Iterator[Metric]:
        with self._counting:
            yield from [self._build_counter(counter, snapshot) for counter in (*COUNTERS, MISSED)]
            yield from [self._build_histogram(histogram, snapshot) for histogram in HISTOGRAMS]

    def _is_repeated(self, event: Event) -> bool:
        if event.kind != "job" or event.data.state not in ENDED:
            return False
        number = event.data.number
        is_known = number in self._ended
        self._ended[number] = None
        if len(self._ended) > self._remembered_jobs:
            self._ended.popitem(last=False)
        return is_known

    def _build_counter(self, counter: Counter, snapshot: ServiceSnapshot) -> Metric:
        family = CounterMetricFamily(counter.name, counter.meaning, labels=counter.labels)
        for labels, value in {**dict.fromkeys(counter.expected(snapshot), 0.0), **self._counts[counter.name]}.items():
            family.add_metric(labels, value)
        return family

    def _build_histogram(self, histogram: Histogram, snapshot: ServiceSnapshot) -> Metric:
        family = HistogramMetricFamily(histogram.name, histogram.meaning, labels=histogram.labels)
        expected = {labels: _Distribution(histogram.buckets) for labels in histogram.expected(snapshot)}
        for labels, distribution in {**expected, **self._observed[histogram.name]}.items():
            family.add_metric(labels, distribution.list_cumulative(), distribution.sum)
        return family


class _Distribution:
    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = (*bounds, float("inf"))
        self._counts = [0] * len(self._bounds)
        self.sum = 0.0

    def add_value(self, value: float) -> None:
        self.sum += value
        for place, bound in enumerate(self._bounds):
            self._counts[place] += value <= bound

    def list_cumulative(self) -> list[tuple[str, float]]:
        """Lists the upper bound of each histogram bucket with the number of values at or below it."""
        return [
            ("+Inf" if bound == float("inf") else str(bound), count)
            for bound, count in zip(self._bounds, self._counts, strict=True)
        ]


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
