"""Metrics of commands: what is counted, and that the file has the sum of all commands that have written to it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Report
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.telemetry.command_metrics import (
    COMMAND_METRICS,
    Command,
    MetricTotals,
    Sample,
    fold_samples,
    list_command_samples,
    list_refresh_samples,
)
from arctic_runtime.service.telemetry.metrics_file import HEAD, add_to_file, format_series, parse_series
from arctic_runtime.thresholds import TelemetryThresholds

BEGAN = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
COMMAND = Command("dbt build", "shop", "prod")


def report(name: str = "orders", status: Any = "refreshed", **rows: int) -> Report:
    followed = FollowedModel(Model(TableName("lake", "dws", name), "", ModelConfig(("id",))), f"model.shop.{name}")
    mode: Any = "unchanged" if status == "unchanged" else "incremental"
    is_done = status in ("refreshed", "unchanged")
    done = RefreshResult(Refreshed(Outcome(mode, "CHANGES", rows=rows))) if is_done else None
    return Report(followed, status, BEGAN, 1.5, done)


def values_of(*samples: Sample) -> dict[str, float]:
    """The values of the series of the model `orders` or of the command, by metric and last label."""
    folded = fold_samples({}, samples)
    return {f"{name} {labels[-1]}" if len(labels) > 3 else name: value for (name, labels), value in folded.items()}


def test_a_run_of_a_model_counts_its_rows_and_is_its_last_success() -> None:
    values = values_of(*list_refresh_samples(COMMAND, report(insert=3, delete=1)))

    assert values["arctic_model_rows_total insert"] == 3
    assert values["arctic_model_rows_total update"] == 0
    assert values["arctic_model_last_success_timestamp_seconds"] == BEGAN.timestamp() + 1.5
    assert values["arctic_model_last_run_duration_seconds"] == 1.5


def test_a_failure_leaves_the_last_success_and_has_been_counted_with_0_before() -> None:
    before = values_of(*list_refresh_samples(COMMAND, report()))
    failed = replace(report(status="failed"), began=BEGAN.replace(hour=13))
    values = values_of(*list_refresh_samples(COMMAND, report()), *list_refresh_samples(COMMAND, failed))

    assert before["arctic_model_runs_total failed"] == 0
    assert values["arctic_model_runs_total failed"] == values["arctic_model_last_run_failed"] == 1
    last = "arctic_model_last_success_timestamp_seconds"
    assert values[last] == before[last] < values["arctic_model_last_run_timestamp_seconds"]


def test_a_lost_race_is_counted_and_is_not_the_last_run() -> None:
    assert values_of(*list_refresh_samples(COMMAND, report(status="conflict")))["arctic_model_runs_total conflict"] == 1
    assert "arctic_model_last_run_failed" not in values_of(*list_refresh_samples(COMMAND, report(status="conflict")))
    assert list(list_refresh_samples(COMMAND, report(status="skipped"))) == []


def test_a_command_that_fails_is_no_success() -> None:
    values = values_of(*list_command_samples(COMMAND, 50.0, 2.0, failed=True))

    assert values["arctic_command_last_run_failed"] == 1
    assert "arctic_command_last_success_timestamp_seconds" not in values


REPORTS = st.builds(
    report,
    st.sampled_from(["orders", "lines", 'a "b", c']),
    st.sampled_from(["refreshed", "unchanged", "failed", "conflict", "skipped"]),
    insert=st.integers(0, 9),
    delete=st.integers(0, 9),
)
RUNS = st.lists(st.tuples(st.lists(REPORTS, max_size=4), st.integers(0, 10**9), st.booleans()), max_size=6)


def list_run_samples(reports: Sequence[Report], ended: int, failed: bool) -> list[Sample]:
    refreshes = [sample for one in reports for sample in list_refresh_samples(COMMAND, one)]
    return [*refreshes, *list_command_samples(COMMAND, float(ended), 1.0, failed)]


@given(runs=RUNS)
def test_the_file_has_the_sum_of_all_commands_whatever_parts_they_ran(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[list[Report], int, bool]]
) -> None:
    file = tmp_path_factory.mktemp("metrics") / "arctic.prom"
    expected: dict[Any, float] = {}
    for run in runs:
        totals = MetricTotals()
        totals.add_samples(list_run_samples(*run))
        add_to_file(file, totals.take_unwritten(), TelemetryThresholds())
        expected = fold_samples(expected, list_run_samples(*run))
        assert parse_series(file.read_text()) == expected


def test_the_file_is_in_the_format_of_prometheus_and_readable_by_others(tmp_path: Path) -> None:
    file = tmp_path / "arctic.prom"
    command = replace(COMMAND, project='a "b" \\\n c')
    samples = fold_samples({}, list_refresh_samples(command, report(insert=3)))
    add_to_file(file, samples, TelemetryThresholds())
    families = {family.name: family for family in text_string_to_metric_families(file.read_text())}

    assert families["arctic_model_rows"].type == "counter"
    (inserted,) = [one for one in families["arctic_model_rows"].samples if one.labels["action"] == "insert"]
    assert inserted.value == 3
    assert inserted.labels["project"] == command.project
    assert sum(len(family.samples) for family in families.values()) == len(samples)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~_read_mask()
    assert [path.name for path in tmp_path.iterdir()] == ["arctic.prom"]


def _read_mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_commands_that_end_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    file, names = tmp_path / "arctic.prom", [f"model_{number}" for number in range(8)]
    patient = replace(TelemetryThresholds(), lock_seconds=30)
    samples = [fold_samples({}, list_refresh_samples(COMMAND, report(name))) for name in (*names, *names)]
    threads = [threading.Thread(target=add_to_file, args=(file, part, patient)) for part in samples]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = {
        labels[2]: value for (name, labels), value in parse_series(file.read_text()).items() if "refreshed" in labels
    }

    assert runs == {f"lake.dws.{name}": 2 for name in names}


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    file = tmp_path / "node.prom"
    file.write_text("node_up 1\n")
    with pytest.raises(ConfigError, match="not of dbt-arctic"):
        add_to_file(file, fold_samples({}, list_refresh_samples(COMMAND, report())), TelemetryThresholds())
    assert file.read_text() == "node_up 1\n"


def test_lines_that_are_not_understood_are_left_out() -> None:
    series = fold_samples({}, list_refresh_samples(COMMAND, report()))
    text = format_series(series) + 'arctic_model_runs_total{table="a"} 3\narctic_other{a="b"} 1\nbroken{ 4\n'
    assert text.startswith(HEAD)
    assert parse_series(text) == series


def test_samples_that_could_not_be_written_are_added_to_later_ones() -> None:
    totals = MetricTotals()
    totals.add_samples(list_refresh_samples(COMMAND, report(insert=1)))
    taken = totals.take_unwritten()
    totals.add_samples(list_refresh_samples(COMMAND, report(insert=2)))
    totals.keep_unwritten(taken)

    rows = ("arctic_model_rows_total", ("shop", "prod", "lake.dws.orders", "insert"))
    assert totals.take_unwritten()[rows] == 3
    assert dict(totals.list_values("arctic_model_rows_total"))[rows[1]] == 3


def test_names_of_metrics_are_those_of_prometheus() -> None:
    assert len({metric.name for metric in COMMAND_METRICS}) == len(COMMAND_METRICS)
    assert all(metric.name.startswith("arctic_") and metric.meaning.endswith(".") for metric in COMMAND_METRICS)
