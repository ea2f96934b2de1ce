"""Traces: a span for each pass, refresh, step and effect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CatalogError, CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.telemetry.configured import is_traced
from arctic_runtime.service.telemetry.traces import Traces
from arctic_runtime.service.telemetry.tracing_config import build_traces
from arctic_runtime.timings import Timings

DONE = RefreshResult(Refreshed(Outcome("incremental", "CHANGES", rows={"insert": 3, "delete": 0})))


def task(name: str, pins: PinnedSnapshots) -> Task:
    model = Model(TableName("lake", "dws", name), "select 1", ModelConfig(("id",)))
    return Task(FollowedModel(model, f"model.shop.{name}"), pins, has_news=True, is_known=True)


def works(_: Task) -> RefreshResult:
    with Timings().measure_step("MergeBase"):
        perform_effect("view.replace", lambda: None, "replace the view")
    return DONE


def spans(run: Callable[[Traces], None]) -> dict[str, ReadableSpan]:
    """The spans of what is run, by name."""
    exporter = InMemorySpanExporter()
    with Traces("shop", SimpleSpanProcessor(exporter)) as made:
        run(made)
        spans = exporter.get_finished_spans()
    return {span.name: span for span in (*spans, *exporter.get_finished_spans())}


def parent(spans_by_name: dict[str, ReadableSpan], name: str) -> str | None:
    above = spans_by_name[name].parent
    return next(
        (
            span.name
            for span in spans_by_name.values()
            if above and span.context and span.context.span_id == above.span_id
        ),
        None,
    )


def test_a_refresh_is_part_of_its_pass_and_has_its_steps_and_effects() -> None:
    spans_by_name = spans(lambda made: void(made.trace_refresh(works)(task("sales", PinnedSnapshots()))))

    assert set(spans_by_name) == {"pass", "refresh sales", "MergeBase", "view.replace"}
    assert parent(spans_by_name, "view.replace") == "MergeBase"
    assert parent(spans_by_name, "MergeBase") == "refresh sales"
    assert parent(spans_by_name, "refresh sales") == "pass"
    assert dict(spans_by_name["refresh sales"].attributes or {}) == {
        "dbt_arctic.table": "lake.dws.sales",
        "dbt_arctic.has_news": True,
        "dbt_arctic.mode": "incremental",
        "dbt_arctic.reason": "CHANGES",
        "dbt_arctic.rows.insert": 3,
    }
    assert spans_by_name["pass"].resource.attributes["dbt_arctic.project"] == "shop"


def test_refreshes_of_a_pass_are_one_trace_over_all_threads() -> None:
    def run(made: Traces) -> None:
        refresh, pins, other = made.trace_refresh(works), PinnedSnapshots(), PinnedSnapshots()
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(refresh, [task("a", pins), task("b", pins), task("c", other)]))

    spans_by_name = spans(run)
    traced = {name: spans_by_name[f"refresh {name}"].context.trace_id for name in "abc"}  # type: ignore[union-attr]

    assert traced["a"] == traced["b"] != traced["c"]


def test_a_pass_lasts_until_its_last_refresh_has_ended() -> None:
    spans_by_name = spans(lambda made: void(made.trace_refresh(works)(task("sales", PinnedSnapshots()))))
    whole, part = spans_by_name["pass"], spans_by_name["refresh sales"]

    assert whole.start_time is not None
    assert part.start_time is not None
    assert whole.end_time is not None
    assert whole.start_time <= part.start_time <= whole.end_time


def test_a_failure_is_an_error_without_secrets() -> None:
    def fails(_: Task) -> RefreshResult:
        raise CatalogError("no answer of postgresql://me:hunter2@host/db")

    def run(made: Traces) -> None:
        with pytest.raises(CatalogError):
            made.trace_refresh(fails)(task("sales", PinnedSnapshots()))

    failed = spans(run)["refresh sales"]
    assert failed.status.status_code == StatusCode.ERROR
    assert failed.status.description == "no answer of postgresql://me:***@host/db"
    assert failed.events == ()


def test_a_lost_race_is_no_error() -> None:
    def loses(_: Task) -> RefreshResult:
        raise CommitConflict("another writer committed first")

    def run(made: Traces) -> None:
        with pytest.raises(CommitConflict):
            made.trace_refresh(loses)(task("sales", PinnedSnapshots()))

    span = spans(run)["refresh sales"]
    assert span.status.status_code == StatusCode.UNSET
    assert (span.attributes or {})["dbt_arctic.conflict"] is True


def test_effects_outside_of_refreshes_are_left_out() -> None:
    assert spans(lambda _: perform_effect("view.replace", lambda: None, "replace the view")) == {}


def test_nobody_watches_once_it_has_ended() -> None:
    exporter = InMemorySpanExporter()
    with Traces("shop", SimpleSpanProcessor(exporter)) as made:
        refresh = made.trace_refresh(works)
    assert refresh(task("sales", PinnedSnapshots())) is DONE
    assert "view.replace" not in {span.name for span in exporter.get_finished_spans()}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_sent_only_where_opentelemetry_is_configured(environment: dict[str, str], expected: bool) -> None:
    assert is_traced(environment) is expected


def test_spans_are_sent_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "our-warehouse")
        made = build_traces("shop")
        with made:
            made.trace_refresh(works)(task("sales", PinnedSnapshots()))
        server.shutdown()
    body = b"".join(body for _, body in received)

    assert {path for path, _ in received} == {"/v1/traces"}
    assert all(name in body for name in (b"refresh sales", b"view.replace", b"our-warehouse"))


def void(_: object) -> None:
    """A callback's result that nobody needs."""
