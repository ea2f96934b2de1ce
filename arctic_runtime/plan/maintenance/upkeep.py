"""Schedules upkeep (compaction and expiry of tables by `arctic serve`) within a budget.

Tables that cost readers most come first, but none waits for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from typing import Literal

from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import UpkeepThresholds

UpkeepOperation = Literal["compact", "expire"]


@dataclass(frozen=True)
class Hours:
    """Interval of the day from `begin` to `end`, which begins on the weekdays in `days` (0 is Monday).

    If `end` is before `begin`, the interval ends on the next day.
    """

    begin: time
    end: time
    days: frozenset[int] = frozenset(range(7))

    def contain(self, moment: datetime) -> bool:
        """Whether `moment` is within these hours; after midnight, the weekday on which the interval began counts."""
        at = moment.time()
        if self.begin <= self.end:
            return self.begin <= at < self.end and moment.weekday() in self.days
        if at >= self.begin:
            return moment.weekday() in self.days
        return at < self.end and (moment.weekday() - 1) % 7 in self.days


@dataclass(frozen=True)
class UpkeepBudget:
    """Limits of upkeep: number of jobs at the same time, bytes rewritten per minute, and hours without any upkeep.

    `bytes_per_minute` is None for no limit. `group_bytes_per_minute` maps schemas to further limits for the tables of
    the schema.
    """

    jobs: int = 1
    bytes_per_minute: int | None = None
    quiet_hours: tuple[Hours, ...] = ()
    group_bytes_per_minute: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Allowance:
    """Token bucket of the bytes that upkeep may write. Times are seconds of a monotonic clock.

    A job that writes more than a full bucket has may begin when the bucket is full; the next job then waits until
    enough bytes have accrued.
    """

    bytes_per_minute: int
    """Bytes that are added to the bucket per minute."""

    kept_minutes: float
    """Minutes after which an empty bucket is full."""

    left: float
    """Bytes available at the time `at`; negative after a large job."""

    at: float
    """Time for which `left` holds."""

    @staticmethod
    def build_full(bytes_per_minute: int, kept_minutes: float, now: float) -> Allowance:
        return Allowance(bytes_per_minute, kept_minutes, bytes_per_minute * kept_minutes, now)

    @property
    def most(self) -> float:
        return self.bytes_per_minute * self.kept_minutes

    def accrue_until(self, now: float) -> Allowance:
        """Returns the allowance at the time `now`, with the bytes that were added since `at`."""
        gained = self.bytes_per_minute * max(0.0, now - self.at) / 60
        return replace(self, left=min(self.most, self.left + gained), at=now)

    def spend_bytes(self, bytes_written: int) -> Allowance:
        return replace(self, left=self.left - bytes_written)

    def allows(self, bytes_written: int) -> bool:
        return self.left >= min(bytes_written, self.most)

    def seconds_until(self, bytes_written: int) -> float:
        """Seconds until a job that writes `bytes_written` may begin, if no other job begins before."""
        return max(0.0, min(bytes_written, self.most) - self.left) / self.bytes_per_minute * 60


@dataclass(frozen=True)
class DueUpkeep:
    """A job of compaction or expiry that is due for a table; times are seconds of a monotonic clock."""

    table: TableName
    operation: UpkeepOperation
    since: float
    """Time since which the job is due."""

    bytes: int = 0
    """Bytes that the job rewrites."""

    waste_bytes: int = 0
    """Bytes that each reader reads in vain until the job is done."""

    reasons: tuple[str, ...] = ()
    """Reasons for which the job is due, for users."""

    failures: int = 0
    """Number of failures of the job in a row."""

    retry_at: float = 0.0
    """Time before which the job is not tried again."""


@dataclass(frozen=True)
class UpkeepState:
    """State on which the schedule of upkeep depends."""

    now: float
    """Time of a monotonic clock."""

    local: datetime
    """Local time, for the hours without upkeep."""

    busy: Collection[TableName] = ()
    """Tables to which a run or ingestion is writing."""

    running: Collection[TableName] = ()
    """Tables with a running job of upkeep."""

    paused: Collection[TableName] = ()
    """Tables whose upkeep users have paused."""

    allowances: Mapping[str | None, Allowance] = field(default_factory=dict)
    """Bytes that upkeep may write, by schema; that of None is for all tables together."""


def sort_by_urgency(due: Iterable[DueUpkeep], now: float, thresholds: UpkeepThresholds) -> list[DueUpkeep]:
    """Sorts jobs: first those that have waited too long, oldest first; then the others by `waste_bytes`, most first."""

    def rank_job(job: DueUpkeep) -> tuple[bool, float, float]:
        starves = now - job.since >= thresholds.starvation_seconds
        return not starves, job.since if starves else -job.waste_bytes, job.since

    return sorted(due, key=rank_job)


def schedule_upkeep(
    due: Iterable[DueUpkeep], state: UpkeepState, budget: UpkeepBudget, thresholds: UpkeepThresholds
) -> Iterator[tuple[DueUpkeep, str]]:
    """Yields the jobs in the order of `sort_by_urgency`, each with the reason why it must wait; "" if it may begin.

    The bytes of a job that waits only for bytes are set aside, so that small jobs after it can't use them up.
    """
    free = budget.jobs - len(state.running)
    allowances = {group: allowance.accrue_until(state.now) for group, allowance in state.allowances.items()}
    begun: set[TableName] = set(state.running)
    for job in sort_by_urgency(due, state.now, thresholds):
        groups = [group for group in (None, job.table.schema) if group in allowances]
        waits = _explain_wait(job, state, budget, begun) or ("for another job to end" if free <= 0 else "")
        if not waits:
            lacking = [allowances[group] for group in groups if not allowances[group].allows(job.bytes)]
            waits = _explain_budget_wait(job, lacking)
            for group in groups:
                allowances[group] = allowances[group].spend_bytes(job.bytes)
        if not waits:
            free -= 1
            begun.add(job.table)
        yield job, waits


def _explain_wait(job: DueUpkeep, state: UpkeepState, budget: UpkeepBudget, begun: Collection[TableName]) -> str:
    """Explains why `job` has to wait, apart from the limits on jobs and bytes; "" if it does not.

    `begun` are the tables with a running job of upkeep.
    """
    if job.table in state.paused:
        return "until it is resumed"
    if any(hours.contain(state.local) for hours in budget.quiet_hours):
        return "until the quiet hours end"
    if state.now < job.retry_at:
        return f"{job.retry_at - state.now:.0f} s after {job.failures} failures"
    if job.table in begun:
        return "for other upkeep of the table"
    return "for its writer" if job.table in state.busy else ""


def _explain_budget_wait(job: DueUpkeep, lacking: Collection[Allowance]) -> str:
    if not lacking:
        return ""
    return f"{max(allowance.seconds_until(job.bytes) for allowance in lacking):.0f} s for its bytes a minute"
