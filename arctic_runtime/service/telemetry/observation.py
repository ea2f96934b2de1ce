"""Observes the work of a command or of a service: spans, metrics, lineage, and a metrics file.

It never makes the work fail, and delays it by some seconds at most, at the end: whatever can't be sent or written is
reported by one warning for each kind of receiver.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from typing_extensions import Self

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import mask_text
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, Report
from arctic_runtime.service.telemetry.command_metrics import (
    Command,
    MetricTotals,
    Sample,
    list_batch_samples,
    list_command_samples,
    list_refresh_samples,
)
from arctic_runtime.service.telemetry.configured import TelemetrySettings
from arctic_runtime.service.telemetry.lineage.configured import build_lineage_emitter
from arctic_runtime.service.telemetry.metrics_file import add_to_file
from arctic_runtime.service.telemetry.tracing_config import build_otlp_metrics, build_traces
from arctic_runtime.thresholds import TelemetryThresholds

if TYPE_CHECKING:
    from arctic_runtime.ingest.job.reports import BatchReport
    from arctic_runtime.service.telemetry.lineage.emitter import LineageEmitter
    from arctic_runtime.service.telemetry.otlp_metrics import OtlpMetrics
    from arctic_runtime.service.telemetry.traces import Traces

Warn = Callable[[str], None]

_OTEL = "OpenTelemetry"
_FILE = "The metrics file"
_ADVICE = {
    _OTEL: "check the receiver and the variables that begin with OTEL; the work of the command is done without it",
    _FILE: "correct the path, or the rights of its folder; the work of the command is done without it",
}


@dataclass(frozen=True)
class Outlets:
    """Receivers of what is observed; None for each that is not configured or can't be used."""

    traces: Traces | None = None
    lineage: LineageEmitter | None = None
    otlp: OtlpMetrics | None = None
    metrics_file: Path | None = None


class Telemetry:
    """Observes work between `__enter__` and `__exit__`, and reports it to outlets.

    Methods may be called by any thread, and raise no error.
    """

    def __init__(
        self,
        outlets: Outlets,
        totals: MetricTotals,
        warn: Warn,
        limits: TelemetryThresholds,
        command: Command | None = None,
        is_lasting: bool = False,
        began: float | None = None,
    ) -> None:
        """Creates the observer of a `command`, that began at a time in seconds since 1970; of a service without one.

        A command that `is_lasting` has no span of its own, and its metrics file is also written while it runs.
        """
        self._outlets = outlets
        self._totals = totals
        self._warnings = Warnings(warn)
        self._limits = limits
        self._command = command
        self._is_lasting = is_lasting
        self._began = time.time() if began is None else began
        self._held: list[Report] | None = None
        self._error = ""
        self._open = ExitStack()
        self._ending = threading.Event()

    def __enter__(self) -> Self:
        traces, lineage, command = self._outlets.traces, self._outlets.lineage, self._command
        if command is not None:
            self._open.enter_context(_watch_logs(self._warnings))
        if traces is not None:
            traces.__enter__()
            if command is not None and not self._is_lasting:
                attributes = {"dbt_arctic.target": command.target, "dbt_arctic.command": command.name}
                traces.begin_command(command.name, attributes, int(1e9 * self._began))
        if lineage is not None:
            lineage.__enter__()
        if self._is_lasting and self._outlets.metrics_file is not None:
            threading.Thread(target=self._write_in_turn, name="metrics file", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail_command(format_failure(error))
        self.release_reports({}, self._error)
        self._end_command()
        self._ending.set()
        late = _call_together(list(self._list_closings()), self._limits.close_seconds, self._warnings)
        for subject in late:
            self._warnings.add(subject, f"no answer within {self._limits.close_seconds:g} seconds at the end")
        if not late:  # Threads that are late may still log that they failed.
            self._open.close()

    def add_to(self, listeners: RefreshListeners) -> RefreshListeners:
        """Returns listeners that also observe each refresh, after these."""

        def report_refresh(report: Report) -> None:
            listeners.report(report)
            self.report_refresh(report)

        traces = self._outlets.traces
        trace = listeners.trace if traces is None else traces.trace_refresh
        return replace(listeners, report=report_refresh, trace=trace)

    def hold_reports(self) -> None:
        """Keeps reports back until `release_reports`, since readers may never see what the refreshes have written."""
        self._held = []

    def release_reports(self, unpublished: Mapping[str, str], error: str = "") -> None:
        """Passes on the reports that were kept back; with `error`, as failures.

        `unpublished` has the reasons for which models, by their names, were not published.
        """
        held, self._held = self._held, None
        for report in held or ():
            reason = error or unpublished.get(report.followed.name, "")
            is_lost = bool(reason) and report.done is not None
            self.report_refresh(replace(report, status="failed", done=None, error=reason) if is_lost else report)

    def report_refresh(self, report: Report) -> None:
        """Reports the result of a refresh, whose span `add_to` has made."""
        if self._held is not None:
            self._held.append(report)
            return
        if self._command is not None:
            self._add_samples(list_refresh_samples(self._command, report))
        if self._outlets.lineage is not None:
            self._outlets.lineage(report)

    def report_failure(self, report: Report) -> None:
        """Reports the failure of a model before or after its refresh, as of a hook or of its Jinja."""
        if self._outlets.traces is not None:
            self._outlets.traces.add_refresh(report)
        self.report_refresh(report)

    def report_batch(self, source: str, batch: BatchReport) -> None:
        """Reports a batch of ingestion."""
        if not batch.count and batch.progress.failure is None:
            return
        if self._outlets.traces is not None:
            self._outlets.traces.add_batch(source, batch)
        if self._command is not None:
            self._add_samples(list_batch_samples(self._command, source, batch, time.time()))

    def fail_command(self, error: str) -> None:
        """Notes that the command has failed; the first reason stays."""
        self._error = self._error or error

    def _end_command(self) -> None:
        now = time.time()
        if self._command is not None:
            self._add_samples(list_command_samples(self._command, now, now - self._began, bool(self._error)))
        if self._outlets.traces is not None:
            self._outlets.traces.end_command(self._error)

    def _add_samples(self, samples: Iterable[Sample]) -> None:
        with suppress(Exception):
            self._totals.add_samples(samples)

    def _list_closings(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yields for each outlet the function that sends or writes the rest, and the outlet's name in warnings."""
        outlets = self._outlets
        if outlets.traces is not None:
            yield _OTEL, outlets.traces.__exit__
        if outlets.otlp is not None:
            yield _OTEL, outlets.otlp.close
        if outlets.metrics_file is not None:
            yield _FILE, self._write_file
        if outlets.lineage is not None:
            yield "", outlets.lineage.close_emitter

    def _write_in_turn(self) -> None:
        while not self._ending.wait(self._limits.write_seconds):
            try:
                self._write_file()
            except Exception as error:
                self._warnings.add(_FILE, format_failure(error))

    def _write_file(self) -> None:
        file, samples = self._outlets.metrics_file, self._totals.take_unwritten()
        if file is not None and samples:
            try:
                add_to_file(file, samples, self._limits)
            except Exception:
                self._totals.keep_unwritten(samples)
                raise


class Warnings:
    """Shows one warning for each outlet that can't be used."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._shown: set[str] = set()
        self._lock = threading.Lock()

    def add(self, subject: str, what: str) -> None:
        """Warns of an outlet, unless there was a warning before."""
        with self._lock:
            if not subject or subject in self._shown:
                return
            self._shown.add(subject)
        self.show(
            f"{subject} does not get what this command has done.\n  found: {mask_text(what)}\n"
            f"  what to do: {_ADVICE[subject]}"
        )

    def show(self, text: str) -> None:
        """Shows a text once; an error in doing so, such as a warning that is to be an error, is ignored."""
        with self._lock:
            is_new = text not in self._shown
            self._shown.add(text)
        if is_new:
            with suppress(Exception):
                self._warn(text)


def open_telemetry(
    command: Command,
    settings: TelemetrySettings,
    build_reader: Callable[[], CatalogReader],
    warn: Warn,
    limits: TelemetryThresholds,
    is_lasting: bool = False,
    began: float | None = None,
) -> Telemetry:
    """Builds the observer of a command; what can't be built, as without its extra, is a warning.

    `build_reader` builds the reader of the catalog in which lineage is looked up; the other arguments are those of
    `Telemetry`.
    """
    totals, warnings = MetricTotals(), Warnings(warn)
    outlets = Outlets(metrics_file=settings.metrics_file)
    if settings.has_traces:
        with _warn_of_errors(warnings):
            outlets = replace(outlets, traces=build_traces(command.project))
    if settings.has_metrics:
        with _warn_of_errors(warnings):
            outlets = replace(outlets, otlp=build_otlp_metrics(command.project, totals))
    if settings.has_lineage:
        with _warn_of_errors(warnings):
            lineage = build_lineage_emitter(build_reader(), command.project, warnings.show)
            outlets = replace(outlets, lineage=lineage)
    return Telemetry(outlets, totals, warn, limits, command, is_lasting, began)


def open_service_telemetry(settings: TelemetrySettings, reader: CatalogReader, project: str, warn: Warn) -> Telemetry:
    """Builds the observer of a service, which has its own metrics; raises ConfigError if an outlet can't be used."""
    traces = build_traces(project) if settings.has_traces else None
    lineage = build_lineage_emitter(reader, project, warn) if settings.has_lineage else None
    return Telemetry(Outlets(traces, lineage), MetricTotals(), warn, reader.thresholds.telemetry)


@contextmanager
def _warn_of_errors(warnings: Warnings) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        warnings.show(str(error))
    except Exception as error:
        warnings.add(_OTEL, format_failure(error))


def format_failure(error: BaseException) -> str:
    """Formats an error for people, with secrets masked."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return mask_text(str(error)) or type(error).__name__


def _call_together(calls: Iterable[tuple[str, Callable[[], None]]], seconds: float, warnings: Warnings) -> list[str]:
    """Calls functions at the same time, warns of their errors, and returns the names of those that take too long."""

    def call(subject: str, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            warnings.add(subject, format_failure(error))

    until = time.monotonic() + seconds
    threads = [(subject, threading.Thread(target=call, args=(subject, close), daemon=True)) for subject, close in calls]
    for _, thread in threads:
        thread.start()
    for _, thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return [subject for subject, thread in threads if thread.is_alive()]


class _ExportLog(logging.Handler):
    """Makes one warning of what OpenTelemetry logs about exports that failed."""

    def __init__(self, warnings: Warnings) -> None:
        super().__init__(logging.WARNING)
        self._warnings = warnings
        self._cause = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.ERROR:
            self._warnings.add(_OTEL, self._cause or text)
        else:
            self._cause = self._cause or text


@contextmanager
def _watch_logs(warnings: Warnings) -> Iterator[None]:
    """Takes what libraries of receivers log about failures, which they would print, until the context ends."""
    taken: list[tuple[logging.Logger, logging.Handler]] = [
        (logging.getLogger("opentelemetry"), _ExportLog(warnings)),
        (logging.getLogger("openlineage"), logging.NullHandler()),
    ]
    retries = logging.getLogger("urllib3.connectionpool")
    retries.addFilter(_is_not_of_lineage)
    before = [logger.propagate for logger, _ in taken]
    for logger, handler in taken:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        retries.removeFilter(_is_not_of_lineage)
        for (logger, handler), propagate in zip(taken, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate


def _is_not_of_lineage(record: logging.LogRecord) -> bool:
    return record.threadName != "lineage"
