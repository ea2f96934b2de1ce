"""Sends lineage of refreshes to OpenLineage's configured destination, without delaying or failing a refresh."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Full, Queue
from typing import Protocol

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent
from typing_extensions import Self

from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.refresh_task import Report
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.telemetry.lineage.events import ENDS, JobIdentity, build_refresh_events
from arctic_runtime.service.telemetry.lineage.observed import ModelLineage
from arctic_runtime.thresholds import LineageThresholds

ObserveLineage = Callable[[FollowedModel], ModelLineage]
"""Function that observes a model's lineage from the catalog; raises ArcticError if that fails."""


class Client(Protocol):
    """The methods of OpenLineageClient that LineageEmitter uses."""

    def emit(self, event: RunEvent) -> None: ...

    def close(self, timeout: float = -1.0) -> bool: ...


class LineageEmitter:
    """Sends a start and an end event for each refresh that a follower reports, in a thread of its own.

    A call returns at once and raises no error. If the receiver is too slow, or does not answer, events are dropped, and
    `warn` is called once until the receiver answers again.
    """

    def __init__(
        self,
        identity: JobIdentity,
        observe: ObserveLineage,
        warn: Callable[[str], None],
        thresholds: LineageThresholds,
        client: Client | None = None,
    ) -> None:
        """Creates an emitter; without `client`, creates one that reads the environment and `openlineage.yml`."""
        self._identity = identity
        self._observe = observe
        self._warn = warn
        self._thresholds = thresholds
        self._client: Client = OpenLineageClient() if client is None else client
        self._reports: Queue[Report | None] = Queue(thresholds.queued_reports)
        self._known: dict[TableName, tuple[FollowedModel, float, ModelLineage]] = {}
        self._is_failing = False
        self._thread = threading.Thread(target=self._send_reports, name="lineage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close_emitter()

    def __call__(self, report: Report) -> None:
        """Queues the report of a refresh; reports other than of refreshes that failed or changed rows are ignored."""
        if report.status not in ENDS:
            return
        try:
            self._reports.put_nowait(report)
        except Full:
            self._warn_once(f"{self._thresholds.queued_reports} events wait already, so later ones are left out")

    def close_emitter(self) -> None:
        """Sends the queued reports, for some seconds at most; drops the rest."""
        until = time.monotonic() + self._thresholds.close_seconds
        try:
            self._reports.put(None, timeout=self._thresholds.close_seconds)
        except Full:
            return
        self._thread.join(max(0.0, until - time.monotonic()))
        if not self._thread.is_alive():
            self._client.close(max(0.0, until - time.monotonic()))

    def _send_reports(self) -> None:
        while (report := self._reports.get()) is not None:
            try:
                for event in build_refresh_events(self._identity, report, self._get_lineage(report)):
                    self._client.emit(event)
            except Exception as error:
                self._warn_once(f"{type(error).__name__}: {error}")
            else:
                self._is_failing = False

    def _get_lineage(self, report: Report) -> ModelLineage:
        """Returns the lineage of a report's model, from a cache unless the model has changed or the entry is old."""
        followed = report.followed
        known = self._known.get(followed.table)
        now = time.monotonic()
        if known is not None and known[0] == followed and now < known[1] + self._thresholds.observed_seconds:
            return known[2]
        observed = self._observe_if_possible(followed)
        if observed.output is not None:
            self._known[followed.table] = (followed, now, observed)
        return observed

    def _observe_if_possible(self, followed: FollowedModel) -> ModelLineage:
        """Observes the lineage of a model; returns empty lineage if the catalog does not answer."""
        try:
            return self._observe(followed)
        except ArcticError:
            return ModelLineage()

    def _warn_once(self, what: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._warn(
                f"Lineage of refreshes is not sent.\n  found: {what}\n"
                "  what to do: check the receiver and OpenLineage's configuration; refreshes go on without it"
            )
