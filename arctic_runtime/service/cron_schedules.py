"""Cron schedules of models that dbt runs, and outcomes of data tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from cronsim import CronSim, CronSimError

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName

_SHIFT = timedelta(hours=2)
"""The largest step back of the local clock that is attributed to the end of daylight saving time."""


@dataclass(frozen=True)
class Scheduled:
    """A model that dbt runs at the times of a cron expression.

    `above` are the names of the scheduled models upstream of it, and `reads` the tables and views that it reads itself.
    """

    name: str
    table: TableName
    cron: str
    above: frozenset[str] = frozenset()
    reads: frozenset[TableName] = frozenset()


def name_schedule_part(name: str) -> str:
    """Returns the name under which the service shows the failure of a scheduled model's last run."""
    return f"schedule of {name}"


DataTestStatus = Literal["pass", "warn", "fail", "error"]


@dataclass(frozen=True)
class DataTestOutcome:
    """Outcome of a dbt data test; `message` describes the problem, and is empty if the test passed."""

    name: str
    status: DataTestStatus
    message: str = ""

    @property
    def has_failed(self) -> bool:
        return self.status in ("fail", "error")

    def __str__(self) -> str:
        return f"{self.status.upper()} {self.name}{f': {self.message}' if self.message else ''}"


def read_cron(label: str, value: object) -> str:
    """Reads a cron expression of five fields; raises ConfigError if it is invalid, or matches no date.

    `label` names the setting in the error.
    """
    expected = "minute, hour, day of month, month and day of week, such as '30 6 * * mon-fri'"
    text = value.strip() if isinstance(value, str) else ""
    if len(text.split()) != 5:
        raise ConfigError(f"`{label}` must be a cron expression.", expected=expected, actual=repr(value))
    try:
        CronSim(text, datetime(2000, 1, 1))
    except CronSimError as error:
        raise ConfigError(
            f"`{label}` must be a cron expression.",
            expected=expected,
            actual=f"{value!r} ({error})",
        ) from None
    return text


def is_due(cron: str, last: datetime, now: datetime) -> bool:
    """Whether the cron expression matches a time after `last`, up to `now`; several missed times count as one."""
    newest = next(CronSim(cron, now.replace(microsecond=0) + timedelta(seconds=1), reverse=True), None)
    return newest is not None and newest > last


def was_set_back(last: datetime, now: datetime) -> bool:
    """Whether `now` is before the last run by more than the end of daylight saving time explains."""
    return last - now > _SHIFT


def list_due_models(
    models: Sequence[Scheduled], last: Mapping[str, datetime], now: datetime, waiting: Collection[str]
) -> Iterator[Scheduled]:
    """Yields the models that are due, in their order, without those in `waiting` and the models below them.

    `last` has the time of each model's last run. The caller must add a model that failed to `waiting` before requesting
    the next one, since `waiting` is checked for each model at that moment.
    """
    for model in models:
        is_held = model.name in waiting or any(name in waiting for name in model.above)
        if not is_held and model.name in last and is_due(model.cron, last[model.name], now):
            yield model
