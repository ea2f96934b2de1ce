"""What Prometheus reads of a service."""

from __future__ import annotations

import time
from dataclasses import replace

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from arctic_runtime.model.names import TableName
from arctic_runtime.service.telemetry.declared_metrics import METRICS, Counter
from arctic_runtime.service.telemetry.metrics import Metrics
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.live_data import Job, LiveService, TableOverview, Upkeep
from arctic_runtime.thresholds import ServiceThresholds
from tests.unit.service.promtool import needs_promtool, promtool
from tests.unit.service.still_service import NOW, ORDERS, SALES, StillService, ago, refresh

BATCH = {
    "source": "shop",
    "events": 9,
    "seconds": 0.5,
    "tables": {"shop.orders": {"insert": 5, "delete": 1}},
    "dead": 1,
    "behind": None,
}
"""What the service tells of an ingested batch."""


def metrics_of(service: LiveService) -> Metrics:
    return Metrics(service, ServiceThresholds(), lambda: NOW)


def samples(metrics: Metrics) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Name of a sample → its labels and value, as Prometheus' own parser reads them."""
    samples_by_name: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(metrics.format_metrics()[0].decode()):
        for sample in family.samples:
            samples_by_name.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples_by_name


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """The value of the only sample that has these labels."""
    values = [value for own_labels, value in samples(metrics).get(name, []) if labels.items() <= own_labels.items()]
    assert len(values) <= 1
    return values[0] if values else None


def test_a_table_tells_how_stale_it_is_and_how_large() -> None:
    metrics = metrics_of(StillService())
    expected = {
        "arctic_table_stale_seconds": 12.0,
        "arctic_table_rows": 1000.0,
        "arctic_table_files": 8.0,
        "arctic_table_size_bytes": 4096.0,
        "arctic_table_waste_bytes": 512.0,
        "arctic_table_unmerged_rows": 30.0,
        "arctic_table_last_commit_timestamp_seconds": ago(10).timestamp(),
    }

    assert {name: value(metrics, name, table=str(ORDERS), layer="0") for name in expected} == expected
    assert value(metrics, "arctic_table_stale_seconds", table=str(SALES), layer="1") == 42.0
    assert value(metrics, "arctic_table_target_lag_seconds", table=str(SALES)) == 30.0


def test_nothing_is_reported_of_unknown_values() -> None:
    service = StillService(shown=[TableOverview(SALES, "model", "missing", 1), *StillService().shown[:1]])
    metrics = metrics_of(service)

    assert value(metrics, "arctic_table_rows", table=str(SALES)) is None
    assert value(metrics, "arctic_table_last_commit_timestamp_seconds", table=str(SALES)) is None
    assert value(metrics, "arctic_table_stale_seconds", table="lake.raw.events") is None


def test_a_source_that_can_not_create_its_table_is_a_failing_ingestion() -> None:
    absent = TableOverview(ORDERS, "ingested", "failed", 0, source="shop", error="no such host")
    metrics = metrics_of(StillService(shown=[absent]))
    assert value(metrics, "arctic_ingestion_failing", table=str(ORDERS), layer="0", source="shop") == 1.0


def test_exactly_one_state_of_a_table_and_one_role_is_one() -> None:
    metrics = metrics_of(StillService(role="stands_by"))
    states = [
        (labels["state"], value)
        for labels, value in samples(metrics)["arctic_table_state"]
        if labels["table"] == str(SALES)
    ]

    assert [state for state, value in states if value == 1.0] == ["failed"]
    assert len(states) == 10
    assert [labels["role"] for labels, value in samples(metrics)["arctic_service_role"] if value == 1.0] == [
        "stands_by"
    ]
    assert value(metrics, "arctic_tables", layer="1", state="failed") == 1.0


def test_readers_and_sources_tell_how_far_they_are_behind() -> None:
    metrics = metrics_of(StillService())

    assert value(metrics, "arctic_reader_lag_commits", table=str(ORDERS), reader="dws.sales") == 1.0
    assert value(metrics, "arctic_reader_lag_rows", table=str(ORDERS), reader="dws.sales") == 12.0
    assert value(metrics, "arctic_ingestion_lag_seconds", table=str(ORDERS), source="shop") == 12.0
    assert value(metrics, "arctic_ingestion_dead_letters", source="shop") == 3.0
    assert value(metrics, "arctic_ingestion_running", source="shop") == 1.0


def test_dead_letters_of_a_source_count_once_for_all_its_tables() -> None:
    orders = next(table for table in StillService().shown if table.table == ORDERS)
    service = StillService(shown=[orders, replace(orders, table=TableName("lake", "ods", "lines"))])

    assert value(metrics_of(service), "arctic_ingestion_dead_letters", source="shop") == 3.0


def test_parts_that_fail_are_named() -> None:
    metrics = metrics_of(StillService(errors={"catalog": "no answer"}, is_paused=True))

    assert value(metrics, "arctic_service_part_failing", part="catalog") == 1.0
    assert value(metrics, "arctic_service_paused") == 1.0


def test_a_refresh_counts_when_it_ends_and_only_once() -> None:
    service = StillService()
    metrics = metrics_of(service)
    running = refresh("1", "running")
    done = refresh("1", insert=20, update=3)
    for job in (running, done, done):
        service.events.append_event("job", job)

    assert value(metrics, "arctic_refreshes_total", table=str(SALES), outcome="done") == 1.0
    assert value(metrics, "arctic_refreshed_rows_total", table=str(SALES), action="insert") == 20.0
    assert value(metrics, "arctic_refreshed_rows_total", table=str(SALES), action="delete") == 0.0
    assert value(metrics, "arctic_refresh_seconds_total", table=str(SALES)) == 2.0
    assert value(metrics, "arctic_job_duration_seconds_sum", kind="refresh") == 2.0
    assert value(metrics, "arctic_job_duration_seconds_bucket", kind="refresh", le="1.0") == 0.0
    assert value(metrics, "arctic_job_duration_seconds_bucket", kind="refresh", le="2.5") == 1.0
    assert value(metrics, "arctic_job_duration_seconds_count", kind="refresh") == 1.0
    assert value(metrics, "arctic_job_wait_seconds_sum", kind="refresh") == 1.0


def test_a_counter_is_shown_before_its_first_event() -> None:
    """Prometheus sees only differences: the first failure would be lost to `increase`."""
    metrics = metrics_of(StillService())

    assert value(metrics, "arctic_refreshes_total", table=str(SALES), outcome="failed") == 0.0
    assert value(metrics, "arctic_jobs_ended_total", kind="upkeep", outcome="failed") == 0.0


def test_upkeep_tells_what_is_planned_and_what_it_wrote() -> None:
    service = StillService(
        planned=[Upkeep(ORDERS, "compact", ("small files",), 700, 512)],
        listed=[Job("3", "upkeep", "compact", (ORDERS,), "running", ago(9), ago(8))],
    )
    metrics = metrics_of(service)
    service.events.append_event(
        "job", Job("2", "upkeep", "compact", (ORDERS,), "done", ago(9), ago(8), NOW, 8.0, bytes=900)
    )

    assert value(metrics, "arctic_upkeep_planned", operation="compact") == 1.0
    assert value(metrics, "arctic_upkeep_planned", operation="expire") == 0.0
    assert value(metrics, "arctic_upkeep_planned_bytes", operation="compact") == 700.0
    assert value(metrics, "arctic_upkeep_bytes_total", table=str(ORDERS), operation="compact") == 900.0
    assert value(metrics, "arctic_jobs", kind="upkeep", state="running") == 1.0
    assert value(metrics, "arctic_job_running_seconds", kind="upkeep") == 8.0


def test_ingested_events_and_rows_are_counted() -> None:
    service = StillService()
    metrics = metrics_of(service)
    assert value(metrics, "arctic_ingested_dead_events_total", source="shop") == 0.0
    service.events.append_event("batch", BATCH)

    assert value(metrics, "arctic_ingested_rows_total", source_table="shop.orders", action="insert") == 5.0
    assert value(metrics, "arctic_ingested_events_total", source="shop") == 9.0
    assert value(metrics, "arctic_ingested_dead_events_total", source="shop") == 1.0


def test_events_that_came_too_fast_are_reported() -> None:
    service = StillService(events=EventLog(capacity=2))
    metrics = metrics_of(service)
    for number in range(5):
        service.events.append_event("job", refresh(str(number), "failed"))

    assert value(metrics, "arctic_events_missed_total") == 3.0
    assert value(metrics, "arctic_refreshes_total", table=str(SALES), outcome="failed") == 2.0


def test_events_are_counted_between_two_scrapes() -> None:
    """More of them than the log keeps, with nobody who asks for the metrics."""
    service = StillService(events=EventLog(capacity=1))
    with metrics_of(service) as metrics:
        for number in range(3):
            event = service.events.append_event("job", refresh(str(number)))
            while metrics.counted < event.number:
                time.sleep(0.001)

    assert value(metrics, "arctic_events_missed_total") == 0.0
    assert value(metrics, "arctic_refreshes_total", table=str(SALES), outcome="done") == 3.0


def test_events_before_its_start_are_not_counted() -> None:
    service = StillService()
    service.events.append_event("job", refresh("1"))

    assert value(metrics_of(service), "arctic_refreshes_total", table=str(SALES), outcome="done") == 0.0


def test_hostile_names_are_escaped() -> None:
    hostile = TableName("lake", "ods", 'or"ders}\u2028{x')
    metrics = metrics_of(StillService(shown=[replace(StillService().shown[1], table=hostile)]))

    assert value(metrics, "arctic_table_rows", table=str(hostile)) == 1000.0


def test_open_metrics_are_given_to_those_who_ask_for_them() -> None:
    text, content_type = metrics_of(StillService()).format_metrics("application/openmetrics-text; version=1.0.0")
    families = {family.name for family in openmetrics_families(text.decode())}

    assert content_type.startswith("application/openmetrics-text")
    assert {metric.name.removesuffix("_total") for metric in METRICS} <= families


def test_every_metric_is_exported_with_its_labels() -> None:
    service = StillService(errors={"catalog": ""})
    metrics = metrics_of(service)
    service.events.append_event("job", replace(refresh("1", insert=1), kind="refresh"))
    service.events.append_event(
        "job", Job("2", "upkeep", "compact", (ORDERS,), "done", ago(9), ago(8), NOW, 8.0, bytes=900)
    )
    service.events.append_event("batch", BATCH)
    values = samples(metrics)

    for metric in METRICS:
        name = metric.name if metric.name in values else f"{metric.name}_count"
        assert {frozenset(labels) for labels, _ in values[name]} == {frozenset(metric.labels)}, metric.name


def test_names_of_counters_end_as_prometheus_asks() -> None:
    assert [metric.name for metric in METRICS if isinstance(metric, Counter) != metric.name.endswith("_total")] == []
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@needs_promtool
def test_promtool_finds_nothing_wrong() -> None:
    service = StillService(errors={"catalog": ""})
    metrics = metrics_of(service)
    service.events.append_event("job", refresh("1", insert=1))

    assert promtool("check", "metrics", given=metrics.format_metrics()[0]) == ""


def test_a_table_has_few_lines_in_every_state() -> None:
    shown = [replace(StillService().shown[2], table=TableName("lake", "dws", f"t{number}")) for number in range(100)]
    lines = metrics_of(StillService(shown=shown)).format_metrics()[0].decode().splitlines()

    assert len([line for line in lines if '"lake.dws.t7"' in line]) <= 35
