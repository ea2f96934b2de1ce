"""Computes the freshness of tables: the time up to which each has all changes of its sources.

A table "shows a source as of" a time if it has all changes that the source had by then. Ingestion records this time for
an ingested table. A model has read each upstream table up to a version, its offset, and shows a source as of the same
time as that version does; if it has read all versions, that is the time as of which the upstream table shows the source
at present. The rule is applied through all layers of models, and needs only the offsets in the tables' commits. A table
that is written by other programs is itself a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from arctic_runtime.model.run_summary import RunSummary, get_offsets, is_run
from arctic_runtime.model.sources.freshness import Freshness, FreshnessState, NoRefreshReason, OriginStatus, TableFacts
from arctic_runtime.model.sources.ingestion import time_of
from arctic_runtime.model.state import Commit
from arctic_runtime.model.version import Version

UNKNOWN = datetime.min.replace(tzinfo=timezone.utc)
"""Stands for the time as of which a table shows a source if the time is not known; it is before all known times."""

AsOfBySource = Mapping[str, datetime]
"""Maps each source, by the name of its table, to the time as of which a table shows it."""


@dataclass(frozen=True)
class Unread:
    """The oldest upstream commit whose rows a table lacks."""

    at: datetime
    """Time of the commit."""

    reader: str
    """The table that has not read the commit: the table that lacks the rows, or another upstream of it."""

    table: str
    """The upstream table with the commit."""

    commits: int
    """Number of commits of `table` that `reader` has not read."""


@dataclass(frozen=True)
class Lateness:
    """Reason for which a table is not fresh; the fields mean the same as in `Freshness`."""

    state: FreshnessState
    source: str
    since: datetime | None
    reason: str
    action: str = ""


class FreshnessPlan:
    """Computes the freshness of tables from facts that were observed at the time `now`.

    `tables` are these facts by table name. An ingested table counts as up to date for `confirmed_seconds`, in addition
    to its allowed lag, because ingestion records only at intervals that a source has no new rows.
    """

    def __init__(self, tables: Mapping[str, TableFacts], now: datetime, confirmed_seconds: float) -> None:
        self._tables = tables
        self._now = now
        self._confirmed_seconds = confirmed_seconds
        self._as_of_times: dict[tuple[str, int | None], AsOfBySource] = {}
        self._unread: dict[str, Unread | None] = {}
        self._lags: dict[str, float] = {}

    def get_freshness(self, name: str) -> Freshness:
        """Computes the freshness of the table `name`, which must be one of the observed tables."""
        as_of_times, lag = self._find_as_of_times(name), self._sum_lags(name)
        as_of = min(as_of_times.values(), default=self._now)
        known = None if as_of == UNKNOWN else as_of
        late = self._find_lateness(name, as_of_times, lag)
        if late is None:
            return Freshness("fresh", known, allowed_lag_seconds=lag)
        return Freshness(late.state, known, late.source, late.since, late.reason, late.action, lag)

    # Times as of which tables show sources

    def _find_as_of_times(self, name: str) -> AsOfBySource:
        """Maps each source to the time as of which the newest version of a table shows it.

        Sources that the table shows completely, with all their commits, are left out.
        """
        if (name, None) in self._as_of_times:
            return self._as_of_times[name, None]
        self._as_of_times[name, None] = {}  # breaks cycles
        facts = self._tables.get(name)
        as_of_times: AsOfBySource = {}
        if facts is not None and facts.origin is not None:
            as_of_times = {name: facts.origin.as_of or UNKNOWN}
        elif facts is not None and facts.offsets is not None:
            has_run = any(map(is_run, facts.commits))
            as_of_times = self._merge_as_of_times(facts.offsets) if has_run else {name: UNKNOWN}
        self._as_of_times[name, None] = as_of_times
        return as_of_times

    def _merge_as_of_times(self, offsets: Mapping[str, Version]) -> AsOfBySource:
        as_of_times: dict[str, datetime] = {}
        for table, offset in offsets.items():
            for source, at in self._find_as_of_times_at(table, offset).items():
                as_of_times[source] = min(at, as_of_times.get(source, at))
        return as_of_times

    def _find_as_of_times_at(self, name: str, offset: Version) -> AsOfBySource:
        """Maps each source to the time as of which the table `name` shows it at the version `offset`.

        The time is not known if commits with rows after the offset may have expired. Those of other programs, which
        compact and expire their tables at night, are taken for commits without rows, unless newer ones have some.
        """
        facts = self._tables.get(name)
        if facts is None or offset.table != facts.log:
            return {name: UNKNOWN}
        unread = facts.list_unread_commits(offset)
        is_own = facts.offsets is not None or facts.origin is not None
        if offset.sequence < facts.expired_until and (unread or is_own):
            return {name: UNKNOWN}
        return self._find_as_of_times_before(name, facts, unread[0]) if unread else self._find_as_of_times(name)

    def _find_as_of_times_before(self, name: str, facts: TableFacts, commit: Commit) -> AsOfBySource:
        """Maps each source to the time as of which the table `name` showed it just before `commit`."""
        key = (name, commit.version.snapshot)
        if key not in self._as_of_times:
            self._as_of_times[key] = {}  # breaks cycles
            self._as_of_times[key] = self._compute_as_of_times_before(name, facts, commit)
        return self._as_of_times[key]

    def _compute_as_of_times_before(self, name: str, facts: TableFacts, commit: Commit) -> AsOfBySource:
        if facts.origin is not None:
            return {name: _find_shown_before(facts, commit)}
        if facts.offsets is None:
            return {name: time_of(commit.at_ms)}
        before = (
            older
            for older in reversed(facts.commits)
            if older.version.sequence < commit.version.sequence and is_run(older)
        )
        last = next(before, None)
        return (
            {name: UNKNOWN} if last is None else self._merge_as_of_times(get_offsets(RunSummary.decode(last.summary)))
        )

    def _sum_lags(self, name: str) -> float:
        """Allowed lag of a table in seconds: its own `target_lag` plus the largest allowed lag of an upstream table."""
        if name not in self._lags:
            self._lags[name] = 0.0  # breaks cycles
            facts = self._tables.get(name)
            above = max(map(self._sum_lags, facts.offsets or ()), default=0.0) if facts else 0.0
            self._lags[name] = above + (facts.target_lag_seconds if facts else 0.0)
        return self._lags[name]

    # Reasons for which tables are not fresh

    def _find_lateness(self, name: str, as_of_times: AsOfBySource, lag: float) -> Lateness | None:
        """Returns the reason for which the table `name` is not fresh; None if it is fresh.

        `as_of_times` maps each source of the table to the time as of which the table shows the source. `lag` is the
        allowed lag of the table in seconds. The reasons are tried in this order: a source that is not ingested in time,
        an upstream commit that the table or another upstream has not read, and a source that was recreated.
        """
        for _, source in sorted((at, source) for source, at in as_of_times.items()):
            facts = self._tables.get(source)
            if facts is None or facts.origin is None:
                continue
            late = self._find_cause(source, facts.origin, lag)
            if late is not None:
                return replace(late, state="held") if facts.origin.wait and source == name else late
        unread = self._find_oldest_unread(name)
        if unread is not None:
            is_allowed = (self._now - unread.at).total_seconds() < lag
            no_refresh = self._tables[unread.reader].no_refresh or NoRefreshReason("has yet to read them", "")
            commits = "1 commit" if unread.commits == 1 else f"{unread.commits:,} commits"
            reason = f"{unread.table} has {commits} more: {unread.reader} {no_refresh.reason}"
            return Lateness("delayed" if is_allowed else "behind", unread.table, unread.at, reason, no_refresh.action)
        remade = next((source for source, at in sorted(as_of_times.items()) if at == UNKNOWN), None)
        if remade is not None and self._tables[name].offsets == {}:
            return Lateness("behind", remade, None, f"{name} has no rows of a run yet", "run the model")
        if remade is not None and remade not in self._tables:
            return Lateness("behind", remade, None, f"{remade} is gone, or could not be looked at")
        if remade is not None:
            why = "has versions that have expired" if self._tables[remade].expired_until else "was recreated"
            action = "run the models that read it"
            return Lateness("behind", remade, None, f"{remade} {why}, and its rows were not read yet", action)
        return None

    def _find_cause(self, table: str, origin: OriginStatus, lag: float) -> Lateness | None:
        """Explains why the ingested table `table` is older than allowed; None if it is not.

        `lag` is the allowed lag in seconds of the table whose freshness is computed, which may be a reader of `table`.
        """
        source, failure = origin.source, origin.failure
        if origin.wait is not None:
            reason = f"{table} waits: {read_first_line(origin.wait.message)}"
            return Lateness(
                "behind",
                source,
                origin.wait.since,
                reason,
                read_advice(origin.wait.message) or _format_repair_advice(source),
            )
        if failure is not None:
            reason = f"ingestion of source {source} fails: {read_first_line(failure.message)}"
            return Lateness(
                "behind", source, failure.since, reason, read_advice(failure.message) or _format_repair_advice(source)
            )
        start = "" if origin.is_ingested(self._now) else f"start `arctic serve` or `arctic ingest {source}`"
        if origin.load is not None or origin.as_of is None:
            return Lateness("behind", source, origin.as_of, f"{table} {_describe_load(origin)}", start)
        seconds = (self._now - origin.as_of).total_seconds()
        if seconds <= lag + self._confirmed_seconds + origin.trigger_seconds:
            return None
        if start:
            return Lateness("behind", source, origin.as_of, f"no process ingests source {source}", start)
        reason = f"ingestion of source {source} by {origin.ingested_by} has come no further"
        return Lateness("behind", source, origin.as_of, reason, _LAGS)

    def _find_oldest_unread(self, name: str) -> Unread | None:
        if name not in self._unread:
            self._unread[name] = None  # breaks cycles
            oldest = min(self._iterate_unread(name), key=lambda unread: unread.at, default=None)
            self._unread[name] = oldest
        return self._unread[name]

    def _iterate_unread(self, name: str) -> Iterator[Unread]:
        facts = self._tables.get(name)
        for table, offset in (facts.offsets or {}).items() if facts else ():
            above = self._tables.get(table)
            commits = above.list_unread_commits(offset) if above else ()
            if commits:
                yield Unread(time_of(commits[0].at_ms), name, table, len(commits))
            if table != name and (unread := self._find_oldest_unread(table)) is not None:
                yield unread


_LAGS = (
    "see whether that process is stuck, and whether the source has more events than before: a longer `trigger` makes "
    "fewer commits"
)


def read_first_line(message: str) -> str:
    """Returns the first line of an error message, without punctuation at its end."""
    return message.strip().partition("\n")[0].rstrip(".:;")


def read_advice(message: str) -> str:
    """Returns the advice in an error message, after "what to do:", as one line; empty if there is none."""
    _, _, advice = message.partition("what to do: ")
    return " ".join(advice.split())


def _format_repair_advice(source: str) -> str:
    return f"mend what the error of source {source} names; ingestion tries again by itself"


def _describe_load(origin: OriginStatus) -> str:
    """Describes why a table that was not loaded in full, or is being loaded, is not fresh; follows the table's name."""
    again = "is not loaded in full yet" if origin.as_of is None else "is loaded again"
    return again if origin.load is None else f"{again}: {origin.load.describe_rows()}"


def _find_shown_before(facts: TableFacts, commit: Commit) -> datetime:
    """Returns the time as of which an ingested table showed its source just before `commit`, from the commit's summary.

    If the summary has no such time, returns the newest source time of the commits before, or UNKNOWN if none has one.
    """
    if (shown := RunSummary.decode(commit.summary).shown_before_ms) is not None:
        return time_of(shown)
    before = [
        RunSummary.decode(older.summary) for older in facts.commits if older.version.sequence < commit.version.sequence
    ]
    times = (time_of(run.source_time_ms) for run in before if run.source_time_ms is not None)
    return max(times, default=UNKNOWN)
