"""Times at which models that dbt runs are due, by cron expressions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from cronsim import CronSim, CronSimError

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName

_SHIFT = timedelta(hours=2)
"""A clock that shows a time before the last run by no more than this was set back by summer time."""


@dataclass(frozen=True)
class Scheduled:
    """A model that dbt runs at the times of a cron expression.

    `above` are such models that its rows come from, by name, and `reads` the tables and views that it reads itself.
    """

    name: str
    table: TableName
    cron: str
    above: frozenset[str] = frozenset()
    reads: frozenset[TableName] = frozenset()


def schedule_part(name: str) -> str:
    """The part of a service that does not work while the last run of a scheduled model has failed."""
    return f"schedule of {name}"


DataTestStatus = Literal["pass", "warn", "fail", "error"]


@dataclass(frozen=True)
class DataTestOutcome:
    """Outcome of a data test of dbt: `message` says what is wrong, and is empty if it passed."""

    name: str
    status: DataTestStatus
    message: str = ""

    @property
    def has_failed(self) -> bool:
        return self.status in ("fail", "error")

    def __str__(self) -> str:
        return f"{self.status.upper()} {self.name}{f': {self.message}' if self.message else ''}"


def read_cron(label: str, value: object) -> str:
    """A cron expression of five fields; raises ConfigError for a text that is none, or names no day that there is."""
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
    """Whether a time of the expression lies after `last`, up to now; several missed ones count as one."""
    newest = next(CronSim(cron, now.replace(microsecond=0) + timedelta(seconds=1), reverse=True), None)
    return newest is not None and newest > last


def was_set_back(last: datetime, now: datetime) -> bool:
    """Whether the clock was set back since the last run, so far that it would hold up the next ones."""
    return last - now > _SHIFT


def list_due_models(
    models: Sequence[Scheduled], last: Mapping[str, datetime], now: datetime, waiting: Collection[str]
) -> Iterator[Scheduled]:
    """The models that are due and not `waiting`, in their order; one below a model that waits is left out.

    A generator: what ended badly is to be among `waiting` before the next one is asked for.
    """
    for model in models:
        is_held = model.name in waiting or any(name in waiting for name in model.above)
        if not is_held and model.name in last and is_due(model.cron, last[model.name], now):
            yield model
