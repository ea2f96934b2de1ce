"""OpenTelemetry traces of commands or passes, of the refreshes in them, and of the steps and effects of refreshes."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Status, StatusCode
from typing_extensions import Self

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.effects import watch_effects
from arctic_runtime.errors import CommitConflict
from arctic_runtime.profile import mask_text
from arctic_runtime.service.refreshing.refresh_task import RefreshModel, RefreshResult, Report, Task

if TYPE_CHECKING:
    from arctic_runtime.ingest.job.reports import BatchReport

SERVICE = "dbt-arctic"


def build_resource(project: str) -> Resource:
    """Builds the description of this process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override and extend it."""
    resource = Resource.create({"service.name": SERVICE, "dbt_arctic.project": project})
    return resource.merge(Resource.create())


class Traces:
    """Creates a span for each refresh, and for its steps and effects; and one for all refreshes of a command or a pass.

    Between `__enter__` and `__exit__`, steps and effects of all threads are traced if they belong to a refresh. A pass
    lasts from the start of its first refresh to the end of its last one; refreshes of a command that has a span belong
    to no pass. A thread of OpenTelemetry sends the spans; spans are lost if the receiver can't be reached.
    """

    def __init__(self, project: str, processor: SpanProcessor | None = None) -> None:
        """Creates the traces of a project; sends spans to `processor`, else as the OTEL environment variables say."""
        self._provider = TracerProvider(resource=build_resource(project), shutdown_on_exit=False)
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(SERVICE)
        self._command: Span | None = None
        self._passes: dict[int, _PassSpan] = {}
        self._lock = threading.Lock()
        self._watching = ExitStack()

    def __enter__(self) -> Self:
        self._watching.enter_context(watch_effects(self._trace_part))
        return self

    def __exit__(self, *_: object) -> None:
        self._watching.close()
        with self._lock:
            left = list(self._passes.values())
            self._passes.clear()
        for pass_span in left:
            pass_span.end_span()
        self._provider.shutdown()

    def begin_command(self, name: str, attributes: Mapping[str, str], began_ns: int) -> None:
        """Begins the span of a command, to which all later refreshes belong."""
        self._command = self._tracer.start_span(name, attributes=attributes, start_time=began_ns)

    def end_command(self, error: str) -> None:
        """Ends the span of the command, if there is one, as failed if `error` is not empty."""
        if self._command is not None:
            _set_error(self._command, error)
            self._command.end()

    def add_refresh(self, report: Report) -> None:
        """Adds the span of a refresh that has ended, without steps; for one that failed before it began."""
        began = int(1e9 * report.began.timestamp())
        attributes = {"dbt_arctic.table": str(report.followed.table)}
        span = self._start_part(f"refresh {report.followed.table.name}", attributes, began)
        _set_error(span, report.error)
        span.end(began + int(1e9 * report.seconds))

    def add_batch(self, source: str, batch: BatchReport) -> None:
        """Adds the span of a batch of ingestion that has just ended."""
        ended = time.time_ns()
        attributes: dict[str, str | int] = {"dbt_arctic.source": source, "dbt_arctic.events": batch.count}
        span = self._start_part(f"ingest {source}", attributes, ended - int(1e9 * batch.seconds))
        for table in batch.tables:
            for action, rows in table.rows.items():
                span.set_attribute(f"dbt_arctic.rows.{table.table}.{action}", rows)
        _set_error(span, "" if batch.progress.failure is None else batch.progress.failure.message)
        span.end(ended)

    def _start_part(self, name: str, attributes: Mapping[str, str | int], began_ns: int) -> Span:
        context = None if self._command is None else trace.set_span_in_context(self._command)
        return self._tracer.start_span(name, context, attributes=attributes, start_time=began_ns)

    def trace_refresh(self, refresh: RefreshModel) -> RefreshModel:
        """Wraps `refresh` so that each call gets a span."""

        def refresh_with_span(task: Task) -> RefreshResult:
            table = str(task.followed.table)
            with (
                self._open_parent(task.pins) as parent,
                self._tracer.start_as_current_span(
                    f"refresh {task.followed.table.name}",
                    context=trace.set_span_in_context(parent),
                    attributes={"dbt_arctic.table": table, "dbt_arctic.has_news": task.has_news},
                    record_exception=False,
                    set_status_on_exception=False,
                ) as span,
            ):
                try:
                    done = refresh(task)
                except Exception as error:
                    _mark_failed(span, error)
                    raise
                _describe_span(span, done)
                return done

        return refresh_with_span

    @contextmanager
    def _trace_part(self, name: str) -> Iterator[None]:
        """Traces a step or an effect as a part of the current thread's refresh."""
        if not trace.get_current_span().is_recording():
            yield
            return
        with self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
            try:
                yield
            except Exception as error:
                _mark_failed(span, error)
                raise

    @contextmanager
    def _open_parent(self, pins: PinnedSnapshots) -> Iterator[Span]:
        """Yields the span of the command, if there is one, else that of the pass."""
        if self._command is not None:
            yield self._command
            return
        pass_span = self._get_pass_span(pins)
        try:
            yield pass_span.span
        finally:
            pass_span.ended_ns = time.time_ns()

    def _get_pass_span(self, pins: PinnedSnapshots) -> _PassSpan:
        """Returns the span of the pass that reads the versions `pins`; it ends once `pins` is garbage-collected."""
        with self._lock:
            pass_span = self._passes.get(id(pins))
            if pass_span is None:
                pass_span = self._passes[id(pins)] = _PassSpan(self._tracer.start_span("pass"))
                weakref.finalize(pins, self._end_pass, id(pins))
            return pass_span

    def _end_pass(self, key: int) -> None:
        with self._lock:
            pass_span = self._passes.pop(key, None)
        if pass_span is not None:
            pass_span.end_span()


class _PassSpan:
    def __init__(self, span: Span) -> None:
        self.span = span
        self.ended_ns = time.time_ns()

    def end_span(self) -> None:
        self.span.end(self.ended_ns)


def _describe_span(span: Span, done: RefreshResult) -> None:
    outcome = done.refreshed.outcome
    span.set_attributes({"dbt_arctic.mode": outcome.mode, "dbt_arctic.reason": outcome.reason})
    span.set_attributes({f"dbt_arctic.rows.{action}": count for action, count in outcome.rows.items() if count})


def _mark_failed(span: Span, error: Exception) -> None:
    """Marks a span as failed; a lost commit race only gets an attribute, since the refresh is repeated."""
    if isinstance(error, CommitConflict):
        span.set_attribute("dbt_arctic.conflict", True)
        return
    _set_error(span, str(error) or type(error).__name__)
    span.set_attribute("error.type", type(error).__name__)


def _set_error(span: Span, error: str) -> None:
    """Marks a span as failed if `error` is not empty; secrets in it are masked."""
    if error:
        span.set_status(Status(StatusCode.ERROR, mask_text(error)))
