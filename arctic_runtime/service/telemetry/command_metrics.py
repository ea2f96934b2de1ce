"""Declares the metrics of commands, lists the samples of their work, and adds these up."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from arctic_runtime.service.refreshing.refresh_task import Report, Status

if TYPE_CHECKING:
    from arctic_runtime.ingest.job.reports import BatchReport

Series = tuple[str, tuple[str, ...]]
"""Name of a metric, and the values of its labels, in the order of `CommandMetric.labels`."""

Sample = tuple[Series, float]


@dataclass(frozen=True)
class CommandMetric:
    """A metric of commands; samples of a counter are added, and the last one of a gauge is kept."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    unit: str = ""

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


_OF_COMMAND: Final = ("project", "target", "command")
_OF_MODEL: Final = ("project", "target", "table")
_OF_SOURCE: Final = ("project", "target", "source")
_OUTCOMES: Final[tuple[Status, ...]] = ("refreshed", "unchanged", "failed", "conflict")
_ACTIONS: Final = ("insert", "update", "delete", "upsert")

COMMAND_METRICS: Final = (
    CommandMetric(
        "arctic_command_runs_total", (*_OF_COMMAND, "outcome"), "Commands that ended, by outcome: success or failed."
    ),
    CommandMetric(
        "arctic_command_last_success_timestamp_seconds",
        _OF_COMMAND,
        "When a command last ended without a failure.",
        "s",
    ),
    CommandMetric("arctic_command_last_run_timestamp_seconds", _OF_COMMAND, "When a command last ended.", "s"),
    CommandMetric("arctic_command_last_run_duration_seconds", _OF_COMMAND, "How long the last command ran.", "s"),
    CommandMetric("arctic_command_last_run_failed", _OF_COMMAND, "1 if the last command failed, else 0."),
    CommandMetric(
        "arctic_model_runs_total",
        (*_OF_MODEL, "outcome"),
        "Runs of a model, by outcome: refreshed, unchanged, failed or conflict.",
    ),
    CommandMetric("arctic_model_run_seconds_total", _OF_MODEL, "Seconds that runs of a model took.", "s"),
    CommandMetric(
        "arctic_model_rows_total",
        (*_OF_MODEL, "action"),
        "Rows that runs of a model changed, by action: insert, update, delete or upsert.",
        "{row}",
    ),
    CommandMetric(
        "arctic_model_last_success_timestamp_seconds",
        _OF_MODEL,
        "When a run last brought a model up to date, or found it so.",
        "s",
    ),
    CommandMetric("arctic_model_last_run_timestamp_seconds", _OF_MODEL, "When the last run of a model ended.", "s"),
    CommandMetric("arctic_model_last_run_duration_seconds", _OF_MODEL, "How long the last run of a model took.", "s"),
    CommandMetric("arctic_model_last_run_failed", _OF_MODEL, "1 if the last run of a model failed, else 0."),
    CommandMetric("arctic_ingest_events_total", _OF_SOURCE, "Events of a source that were read.", "{event}"),
    CommandMetric(
        "arctic_ingest_dead_events_total", _OF_SOURCE, "Events of a source that became dead letters.", "{event}"
    ),
    CommandMetric(
        "arctic_ingest_rows_total",
        (*_OF_SOURCE, "source_table", "action"),
        "Rows that ingestion changed, by the name of the table in its source and by action.",
        "{row}",
    ),
    CommandMetric("arctic_ingest_batches_total", _OF_SOURCE, "Batches of a source that were published.", "{batch}"),
    CommandMetric("arctic_ingest_batch_seconds_total", _OF_SOURCE, "Seconds that batches of a source took.", "s"),
    CommandMetric(
        "arctic_ingest_failures_total", _OF_SOURCE, "Times that a source could not be read or its events not written."
    ),
    CommandMetric(
        "arctic_ingest_last_success_timestamp_seconds", _OF_SOURCE, "When a batch of a source was last published.", "s"
    ),
)
METRICS_BY_NAME: Final[Mapping[str, CommandMetric]] = {metric.name: metric for metric in COMMAND_METRICS}


@dataclass(frozen=True)
class Command:
    """A command whose work is observed, such as `dbt build`, and the project and target that it works on."""

    name: str
    project: str
    target: str


def list_command_samples(command: Command, ended: float, seconds: float, failed: bool) -> Iterator[Sample]:
    """Yields the samples of a command that ended at the time `ended`, in seconds since 1970."""
    labels = (command.project, command.target, command.name)
    yield ("arctic_command_runs_total", (*labels, "success")), float(not failed)
    yield ("arctic_command_runs_total", (*labels, "failed")), float(failed)
    yield ("arctic_command_last_run_timestamp_seconds", labels), round(ended, 3)
    yield ("arctic_command_last_run_duration_seconds", labels), round(seconds, 3)
    yield ("arctic_command_last_run_failed", labels), float(failed)
    if not failed:
        yield ("arctic_command_last_success_timestamp_seconds", labels), round(ended, 3)


def list_refresh_samples(command: Command, report: Report) -> Iterator[Sample]:
    """Yields the samples of one run of a model; none for a model that was skipped.

    A run that lost a commit race is counted, but is not the last run, since it is repeated.
    """
    if report.status == "skipped":
        return
    labels = (command.project, command.target, str(report.followed.table))
    ended = round(report.began.timestamp() + report.seconds, 3)
    rows = {} if report.done is None else report.done.refreshed.outcome.rows
    for outcome in _OUTCOMES:
        yield ("arctic_model_runs_total", (*labels, outcome)), float(outcome == report.status)
    yield ("arctic_model_run_seconds_total", labels), round(report.seconds, 3)
    for action in _ACTIONS:
        yield ("arctic_model_rows_total", (*labels, action)), float(rows.get(action, 0))
    if report.status == "conflict":
        return
    yield ("arctic_model_last_run_timestamp_seconds", labels), ended
    yield ("arctic_model_last_run_duration_seconds", labels), round(report.seconds, 3)
    yield ("arctic_model_last_run_failed", labels), float(report.status == "failed")
    if report.status != "failed":
        yield ("arctic_model_last_success_timestamp_seconds", labels), ended


def list_batch_samples(command: Command, source: str, batch: BatchReport, ended: float) -> Iterator[Sample]:
    """Yields the samples of a batch that was published at the time `ended`, or of a failure to read the source."""
    labels = (command.project, command.target, source)
    has_failed = batch.progress.failure is not None and not batch.count
    yield ("arctic_ingest_failures_total", labels), float(has_failed)
    if has_failed:
        return
    yield ("arctic_ingest_batches_total", labels), 1.0
    yield ("arctic_ingest_batch_seconds_total", labels), round(batch.seconds, 3)
    yield ("arctic_ingest_events_total", labels), float(batch.count)
    yield ("arctic_ingest_dead_events_total", labels), float(sum(table.dead for table in batch.tables))
    for table in batch.tables:
        for action, rows in table.rows.items():
            yield ("arctic_ingest_rows_total", (*labels, table.table, action)), float(rows)
    yield ("arctic_ingest_last_success_timestamp_seconds", labels), round(ended, 3)


def fold_samples(values: Mapping[Series, float], samples: Iterable[Sample]) -> dict[Series, float]:
    """Returns the values of all series after these samples: sums of counters, and the last samples of gauges."""
    folded = dict(values)
    for series, value in samples:
        is_sum = METRICS_BY_NAME[series[0]].is_counter
        folded[series] = round(folded.get(series, 0.0) + value, 3) if is_sum else value
    return folded


class MetricTotals:
    """The values of all series since a process began, and those that are not in its metrics file yet."""

    def __init__(self) -> None:
        self._values: dict[Series, float] = {}
        self._unwritten: dict[Series, float] = {}
        self._lock = threading.Lock()

    def add_samples(self, samples: Iterable[Sample]) -> None:
        """Adds samples; any thread may call it."""
        added = list(samples)
        with self._lock:
            self._values = fold_samples(self._values, added)
            self._unwritten = fold_samples(self._unwritten, added)

    def list_values(self, metric: str) -> list[tuple[tuple[str, ...], float]]:
        """Lists the labels and values of a metric's series."""
        return [(labels, value) for (name, labels), value in self._values.items() if name == metric]

    def take_unwritten(self) -> dict[Series, float]:
        """Returns the samples since the last call, added up."""
        with self._lock:
            taken, self._unwritten = self._unwritten, {}
        return taken

    def keep_unwritten(self, taken: Mapping[Series, float]) -> None:
        """Gives back samples that could not be written; later ones are added to them."""
        with self._lock:
            self._unwritten = fold_samples(taken, self._unwritten.items())


def describe_command_metrics() -> str:
    """Returns the Markdown table of the metrics of commands in docs/telemetry.md."""
    rows = (
        f"| `{metric.name}` | {'counter' if metric.is_counter else 'gauge'} "
        f"| {', '.join(f'`{name}`' for name in metric.labels)} | {metric.meaning} |"
        for metric in COMMAND_METRICS
    )
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])
