"""What a command sends and writes about its work, and that no receiver delays it or makes it fail."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CatalogError
from arctic_runtime.ingest.job.reports import BatchReport
from arctic_runtime.ingest.writing.records import TableResult
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import Progress
from arctic_runtime.model.sources.positions import ParsedPosition
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.refreshing.refresh_task import (
    RefreshListeners,
    RefreshResult,
    Report,
    Task,
    attempt_refresh,
)
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.telemetry import tracing_config
from arctic_runtime.service.telemetry.command_metrics import Command, Series
from arctic_runtime.service.telemetry.configured import read_telemetry
from arctic_runtime.service.telemetry.lineage import configured
from arctic_runtime.service.telemetry.metrics_file import parse_series
from arctic_runtime.service.telemetry.observation import Telemetry, open_telemetry
from arctic_runtime.thresholds import TelemetryThresholds
from arctic_runtime.timings import Timings
from tests.receivers import OUTSIDE, Receiver, hang, receive, refuse, send_to

COMMAND = Command("dbt build", "shop", "prod")
SECRET = "no answer of postgresql://me:hunter2@host/db"


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No telemetry is configured before a test, and no thread sends any after it."""
    for name in [name for name in os.environ if name.startswith(OUTSIDE)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    join_senders()


def join_senders() -> None:
    """Waits until OpenTelemetry's threads have ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("Otel"):
            thread.join(30)


def task(name: str) -> Task:
    model = Model(TableName("lake", "dws", name), f"select '{SECRET}' as text", ModelConfig(("id",)))
    return Task(FollowedModel(model, f"model.shop.{name}"), PinnedSnapshots(), has_news=True, is_known=True)


def works(_: Task) -> RefreshResult:
    with Timings().measure_step("MergeBase"):
        perform_effect("view.replace", lambda: None, "replace the view")
    return RefreshResult(Refreshed(Outcome("incremental", "CHANGES", rows={"insert": 3})))


def fails(_: Task) -> RefreshResult:
    raise CatalogError(SECRET)


def refresh(telemetry: Telemetry, name: str, work: Callable[[Task], RefreshResult]) -> Report:
    """Refreshes a model as a follower and dbt's materialization do."""
    listeners = telemetry.add_to(RefreshListeners())
    report, _ = attempt_refresh(listeners.trace(work), task(name))
    listeners.report(report)
    return report


def open_command(shop: Any, warnings: list[str], written: dict[str, Any] | None = None, **limits: float) -> Telemetry:
    settings = read_telemetry(written or {}, Path.cwd(), os.environ)
    thresholds = replace(TelemetryThresholds(), **limits)
    return open_telemetry(COMMAND, settings, lambda: shop[0].reader, warnings.append, thresholds)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receive() as receiver:
        send_to(monkeypatch, receiver.url)
        yield receiver


def test_a_command_sends_spans_metrics_and_lineage_and_writes_its_file(shop: Any, receiver: Receiver) -> None:
    warnings: list[str] = []
    with open_command(shop, warnings, {"metrics_file": "arctic.prom"}) as telemetry:
        refresh(telemetry, "sales", works)
        refresh(telemetry, "broken", fails)
        telemetry.fail_command("failed: broken")

    assert warnings == []
    command, sales, broken = (receiver.span(name) for name in ("dbt build", "refresh sales", "refresh broken"))
    assert {span.name for span in receiver.spans} >= {"MergeBase", "view.replace"}
    assert receiver.span("MergeBase").parent_span_id == sales.span_id
    assert receiver.span("view.replace").parent_span_id == receiver.span("MergeBase").span_id
    assert sales.parent_span_id == broken.parent_span_id == command.span_id
    assert {key.key: key.value.string_value or key.value.int_value for key in sales.attributes} == {
        "dbt_arctic.table": "lake.dws.sales",
        "dbt_arctic.has_news": 0,
        "dbt_arctic.mode": "incremental",
        "dbt_arctic.reason": "CHANGES",
        "dbt_arctic.rows.insert": 3,
    }
    assert (sales.status.code, broken.status.code, command.status.code) == (0, 2, 2)
    assert broken.status.message == "no answer of postgresql://me:***@host/db"

    attributes = (("project", "shop"), ("table", "lake.dws.sales"), ("target", "prod"))
    assert receiver.metrics["arctic_model_rows_total", (("action", "insert"), *attributes)] == 3
    assert receiver.metrics["arctic_model_last_success_timestamp_seconds", attributes] > 1e9
    failed = (("outcome", "failed"), ("project", "shop"), ("table", "lake.dws.broken"), ("target", "prod"))
    assert receiver.metrics["arctic_model_runs_total", failed] == 1

    ends = {event["job"]["name"]: event["eventType"] for event in receiver.events}
    assert ends == {"shop.dws.sales": "COMPLETE", "shop.dws.broken": "FAIL"}

    series = parse_series(Path("arctic.prom").read_text())
    assert series["arctic_model_rows_total", ("shop", "prod", "lake.dws.sales", "insert")] == 3
    assert series["arctic_command_last_run_failed", ("shop", "prod", "dbt build")] == 1


def test_secrets_are_in_nothing_that_is_sent_or_written(shop: Any, receiver: Receiver) -> None:
    with open_command(shop, [], {"metrics_file": "arctic.prom"}) as telemetry:
        refresh(telemetry, "sales", works)
        refresh(telemetry, "broken", fails)
        telemetry.report_failure(replace(refresh(telemetry, "other", fails), error=SECRET))
        telemetry.fail_command(SECRET)

    assert receiver.paths == {"/v1/traces", "/v1/metrics", "/api/v1/lineage"}
    assert "postgresql://me:***@host" in receiver.text
    assert "hunter2" not in receiver.text + Path("arctic.prom").read_text()


def test_an_interrupted_command_has_a_failed_span_and_is_no_success(shop: Any, receiver: Receiver) -> None:
    with pytest.raises(KeyboardInterrupt), open_command(shop, [], {"metrics_file": "arctic.prom"}):
        raise KeyboardInterrupt
    assert receiver.span("dbt build").status.message == "interrupted"
    assert parse_series(Path("arctic.prom").read_text())[
        "arctic_command_last_run_failed", ("shop", "prod", "dbt build")
    ]


def test_a_part_of_the_models_keeps_the_series_of_the_others(shop: Any) -> None:
    for name in ("sales", "orders"):
        with open_command(shop, [], {"metrics_file": "arctic.prom"}) as telemetry:
            refresh(telemetry, name, works)

    assert {labels[2] for name, labels in read_file() if name == "arctic_model_last_success_timestamp_seconds"} == {
        "lake.dws.sales",
        "lake.dws.orders",
    }


def read_file() -> dict[Series, float]:
    return parse_series(Path("arctic.prom").read_text())


@pytest.mark.parametrize(
    ("variables", "paths"),
    [
        ({"OTEL_METRICS_EXPORTER": "none"}, {"/v1/traces", "/api/v1/lineage"}),
        ({"OTEL_TRACES_EXPORTER": "none"}, {"/v1/metrics", "/api/v1/lineage"}),
        ({"OTEL_SDK_DISABLED": "true"}, {"/api/v1/lineage"}),
        ({"OPENLINEAGE_DISABLED": "true"}, {"/v1/traces", "/v1/metrics"}),
    ],
)
def test_each_part_can_be_turned_off(
    shop: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], paths: set[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with open_command(shop, []) as telemetry:
        refresh(telemetry, "sales", works)
    assert receiver.paths == paths


@pytest.mark.parametrize("close_seconds", [0.1, 20])
@pytest.mark.parametrize("open_receiver", [hang, refuse])
def test_a_receiver_that_hangs_or_refuses_is_one_warning(
    shop: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    open_receiver: Callable[[], AbstractContextManager[str]],
    close_seconds: float,
) -> None:
    """Whether the command waits until OpenTelemetry gives up, or not."""
    warnings: list[str] = []
    with open_receiver() as url:
        send_to(monkeypatch, url)
        monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        with open_command(shop, warnings, {"metrics_file": "arctic.prom"}, close_seconds=close_seconds) as telemetry:
            refresh(telemetry, "sales", works)
        join_senders()

    assert len(warnings) == 1
    assert "OpenTelemetry does not get what this command has done" in warnings[0]
    assert capfd.readouterr() == ("", "")
    assert read_file()["arctic_model_last_run_failed", ("shop", "prod", "lake.dws.sales")] == 0


def test_a_receiver_of_lineage_that_refuses_is_one_warning(shop: Any, capfd: pytest.CaptureFixture[str]) -> None:
    warnings: list[str] = []
    with refuse() as url:
        Path("openlineage.yml").write_text(f"transport: {{type: http, url: '{url}', retry: {{total: 0}}}}")
        with open_command(shop, warnings) as telemetry:
            refresh(telemetry, "sales", works)
            refresh(telemetry, "orders", works)

    assert len(warnings) == 1
    assert "Lineage of refreshes is not sent" in warnings[0]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("path", ["missing/arctic.prom", "taken", "notes.prom/arctic.prom"])
def test_a_file_that_can_not_be_written_is_one_warning(shop: Any, path: str) -> None:
    Path("taken").mkdir()
    Path("notes.prom").write_text("mine")
    warnings: list[str] = []
    with open_command(shop, warnings, {"metrics_file": path}) as telemetry:
        assert refresh(telemetry, "sales", works).status == "refreshed"
    assert len(warnings) == 1
    assert "The metrics file does not get what this command has done" in warnings[0]


@pytest.mark.parametrize(("library", "extra"), [("opentelemetry.exporter", "`otel`"), ("openlineage", "`lineage`")])
def test_a_missing_library_is_one_warning_that_names_the_extra(
    shop: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, library: str, extra: str
) -> None:
    for module in (tracing_config, configured):
        find = module.find_spec
        monkeypatch.setattr(module, "find_spec", lambda name, find=find: None if name == library else find(name))
    warnings: list[str] = []
    with open_command(shop, warnings) as telemetry:
        assert refresh(telemetry, "sales", works).status == "refreshed"

    assert len(warnings) == 1
    assert f"install dbt-arctic with the extra {extra}" in warnings[0]
    assert receiver.requests


def test_a_setting_that_the_library_refuses_is_one_warning(
    shop: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "-1")
    warnings: list[str] = []
    with open_command(shop, warnings) as telemetry:
        assert refresh(telemetry, "sales", works).status == "refreshed"
    assert len(warnings) == 1


def test_a_warning_that_is_an_error_does_not_end_the_command(shop: Any) -> None:
    def refuse_warning(text: str) -> None:
        raise RuntimeError(text)

    settings = read_telemetry({"metrics_file": "missing/arctic.prom"}, Path.cwd(), {})
    with open_telemetry(COMMAND, settings, lambda: shop[0].reader, refuse_warning, TelemetryThresholds()) as telemetry:
        assert refresh(telemetry, "sales", works).status == "refreshed"


def test_what_a_build_does_not_publish_is_no_success(shop: Any, receiver: Receiver) -> None:
    with open_command(shop, [], {"metrics_file": "arctic.prom"}) as telemetry:
        telemetry.hold_reports()
        for name in ("sales", "orders"):
            refresh(telemetry, name, works)
        telemetry.release_reports({"model.shop.orders": "not published, since a test failed"})

    failed = {
        labels[2]: value for (name, labels), value in read_file().items() if name == "arctic_model_last_run_failed"
    }
    assert failed == {"lake.dws.sales": 0, "lake.dws.orders": 1}
    assert {event["job"]["name"]: event["eventType"] for event in receiver.events} == {
        "shop.dws.sales": "COMPLETE",
        "shop.dws.orders": "FAIL",
    }


def test_a_build_that_can_not_be_published_has_no_success(shop: Any) -> None:
    telemetry = open_command(shop, [], {"metrics_file": "arctic.prom"})
    telemetry.hold_reports()
    telemetry.__enter__()
    refresh(telemetry, "sales", works)
    telemetry.__exit__(CatalogError, CatalogError("another writer was first"), None)
    assert read_file()["arctic_model_last_run_failed", ("shop", "prod", "lake.dws.sales")] == 1


def test_a_command_that_does_not_end_has_a_span_for_each_pass_and_writes_its_file_meanwhile(
    shop: Any, receiver: Receiver
) -> None:
    settings = replace(read_telemetry({"metrics_file": "arctic.prom"}, Path.cwd(), {}), has_traces=True)
    limits = replace(TelemetryThresholds(), write_seconds=0.02)
    warnings: list[str] = []
    with open_telemetry(
        COMMAND, settings, lambda: shop[0].reader, warnings.append, limits, is_lasting=True
    ) as telemetry:
        refresh(telemetry, "sales", works)
        while not Path("arctic.prom").exists():
            time.sleep(0.01)
        assert ("arctic_model_rows_total", ("shop", "prod", "lake.dws.sales", "insert")) in read_file()

    assert warnings == []
    assert {span.name for span in receiver.spans} == {"pass", "refresh sales", "MergeBase", "view.replace"}
    assert read_file()["arctic_model_rows_total", ("shop", "prod", "lake.dws.sales", "insert")] == 3


def test_batches_of_ingestion_are_counted_and_have_spans(shop: Any, receiver: Receiver) -> None:
    table = TableResult("orders", {"insert": 4}, 5, 4, 0, 1, None)
    batch = BatchReport((table,), 5, 0.5, Progress(), ParsedPosition("1", "1"))
    with open_command(shop, [], {"metrics_file": "arctic.prom"}) as telemetry:
        telemetry.report_batch("erp", batch)
        telemetry.report_batch("erp", replace(batch, tables=(), count=0))

    span = receiver.span("ingest erp")
    assert span.end_time_unix_nano - span.start_time_unix_nano == pytest.approx(5e8, rel=1e-3)
    assert read_file()["arctic_ingest_rows_total", ("shop", "prod", "erp", "orders", "insert")] == 4
    assert read_file()["arctic_ingest_dead_events_total", ("shop", "prod", "erp")] == 1
    assert read_file()["arctic_ingest_batches_total", ("shop", "prod", "erp")] == 1


def test_without_configuration_nothing_is_on(tmp_path: Path) -> None:
    assert not read_telemetry({}, tmp_path, {}).is_on
    assert read_telemetry({"metrics_file": "a.prom"}, tmp_path, {}).metrics_file == tmp_path / "a.prom"
    named = {"ARCTIC_METRICS_FILE": "/var/lib/arctic.prom"}
    assert read_telemetry({"metrics_file": "a.prom"}, tmp_path, named).metrics_file == Path("/var/lib/arctic.prom")


def test_without_configuration_no_library_of_a_receiver_is_loaded() -> None:
    script = (
        "import sys, dbt.adapters.arctic.impl, dbt.adapters.arctic.commands.run, dbt.adapters.arctic.commands.ingest\n"
        "names = ('opentelemetry.sdk', 'opentelemetry.exporter', 'openlineage', 'prometheus_client')\n"
        "print([name for name in sys.modules if name.startswith(names)])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
