"""OpenTelemetry traces of refreshes, their steps and effects, and of passes, in which related models are refreshed."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

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
from arctic_runtime.service.refreshing.refresh_task import RefreshModel, RefreshResult, Task

SERVICE = "dbt-arctic"


class Traces:
    """Creates a span for each pass, each refresh in a pass, and each step and effect of a refresh.

    Between `__enter__` and `__exit__`, steps and effects of all threads are traced if they belong to a refresh. A pass
    lasts from the start of its first refresh to the end of its last one. A thread of OpenTelemetry sends the spans;
    spans are lost if the receiver can't be reached.
    """

    def __init__(self, project: str, processor: SpanProcessor | None = None) -> None:
        """Creates the traces of a project; sends spans to `processor`, else as the OTEL environment variables say."""
        resource = Resource.create({"service.name": SERVICE, "dbt_arctic.project": project})
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override its attributes, and add further ones.
        self._provider = TracerProvider(resource=resource.merge(Resource.create()))
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(SERVICE)
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

    def trace_refresh(self, refresh: RefreshModel) -> RefreshModel:
        """Wraps `refresh` so that each call gets a span."""

        def refresh_with_span(task: Task) -> RefreshResult:
            pass_span = self._get_pass_span(task.pins)
            table = str(task.followed.table)
            with self._tracer.start_as_current_span(
                f"refresh {task.followed.table.name}",
                context=trace.set_span_in_context(pass_span.span),
                attributes={"dbt_arctic.table": table, "dbt_arctic.has_news": task.has_news},
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    done = refresh(task)
                except Exception as error:
                    _mark_failed(span, error)
                    raise
                finally:
                    pass_span.ended_ns = time.time_ns()
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
    span.set_status(Status(StatusCode.ERROR, mask_text(str(error))))
    span.set_attribute("error.type", type(error).__name__)
