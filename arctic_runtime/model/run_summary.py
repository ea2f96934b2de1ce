"""Record of a run, stored in the snapshot summary of its commit: the time that it pins, its sources and its position.

All commits of an ingested batch record the batch's position in the source, whichever table they are to. The progress of
the source records the position of the last batch that is committed to all tables. The newest commit of each table up to
that position belongs to the consistent cut.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from zoneinfo import ZoneInfo

from arctic_runtime.errors import CorruptState
from arctic_runtime.model import properties
from arctic_runtime.model.forward_edit import ForwardEdit
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.model.sources.positions import ParsePosition
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.version import Version, decode_versions, encode_versions

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)


@dataclass(frozen=True)
class ClockReading:
    """A time in microseconds since 1970, and the time zone of the Spark session that computed with it."""

    micros: int
    zone: str

    def encode(self) -> str:
        """Returns the reading as JSON, for the summary of a commit."""
        return json.dumps({"at": self.micros, "zone": self.zone}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> ClockReading:
        """Reads the JSON of `encode`; raises CorruptState if it can't be read."""
        try:
            fields = json.loads(text)
            return cls(int(fields["at"]), str(fields["zone"]))
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptState(
                "The time in a snapshot summary can't be read.",
                expected="JSON with a time and a zone",
                actual=text,
                fix="run with --full-refresh",
            ) from error

    def has_moved(self, micros: int, is_by_day: bool) -> bool:
        """Whether a query that reads the clock may have another result at the time `micros`.

        With `is_by_day` it reads only the day, in the reading's time zone. True if that zone is not known here.
        """
        if micros == self.micros or not is_by_day:
            return micros != self.micros
        zone = self._find_zone()
        return zone is None or _to_time(micros, zone).date() != _to_time(self.micros, zone).date()

    def count_seconds_to_next_day(self, micros: int) -> float | None:
        """Number of seconds from the time `micros` to the next day in the reading's zone; None if it is not known."""
        zone = self._find_zone()
        if zone is None:
            return None
        now = _to_time(micros, zone)
        next_day = datetime.datetime.combine(now.date() + datetime.timedelta(days=1), datetime.time(), zone)
        return (next_day.astimezone(datetime.timezone.utc) - now).total_seconds()

    def _find_zone(self) -> ZoneInfo | None:
        try:
            return ZoneInfo(self.zone)
        except (OSError, ValueError, KeyError):
            return None


def _to_time(micros: int, zone: ZoneInfo) -> datetime.datetime:
    return (_EPOCH + datetime.timedelta(microseconds=micros)).astimezone(zone)


def to_micros(time: datetime.datetime) -> int:
    """Converts a time with a zone to microseconds since 1970."""
    return (time - _EPOCH) // datetime.timedelta(microseconds=1)


SCHEMA_ONLY = "schema-only"

UNFROZEN = "applied"
"""Value of `frozen` in the record of a run that applied changes to frozen rows."""


@dataclass(frozen=True)
class RunSummary:
    """Record of a run, a restore or an overwrite in the summary of its commit; absent entries are None.

    `docs/reference/stored-names.md` describes each entry under its stored name.
    """

    run: str | None = None
    """Token of the run; the names of its branches contain it."""

    mode: str | None = None
    """The way in which the run computed the table, a `Mode`, or SCHEMA_ONLY if it created an empty table."""

    reason: str | None = None
    """The reason for the mode, a `Reason`."""

    offsets: Mapping[str, Version] | None = None
    """For each upstream, by its name, the version up to which the run read it."""

    refresh_state: str | None = None
    """The same versions for other engines, with the start of the refresh, as JSON."""

    query: str | None = None
    """Fingerprint of the query and of everything else that determines the table's rows, as JSON."""

    session: str | None = None
    """Version and SQL settings of the Spark that computed the rows, as JSON; a hash if an earlier release wrote it."""

    high_watermark: str | None = None
    """The highest value of `sequence_by` that was read."""

    restored: str | None = None
    """The version to which a table of change events was restored; its rows no longer follow from the events alone."""

    declared: Declared | None = None
    """The parts of the table that were overwritten, each with the value of `sequence_by` after which events apply."""

    aggregate_state: str | None = None
    """Fingerprint of the plan of the aggregate state (sums and counts per group) that the run stored."""

    no_aggregate_state: str | None = None
    """Fingerprint of a plan of aggregate state that could not be stored, so that it is not tried again."""

    given_up: str | None = None
    """Reason for which this run or an earlier one abandoned its incremental plan and computed the whole query."""

    judged: str | None = None
    """Fingerprint of the query text that Spark was asked about: whether Spark reads it as our parser does.

    The answer is yes if `given_up` is absent.
    """

    started_ms: int | None = None
    """Time at which the run began to compute, in milliseconds since 1970."""

    estimated: float | None = None
    """Seconds that were estimated for the run; later estimates compare them with the time that it took."""

    changelog: str | None = None
    """`input` if the change rows do not contain the rows before; otherwise absent."""

    repaired: str | None = None
    """Names of the checks of key and contract that failed before the run, and whose rows the run repaired."""

    frozen: str | None = None
    """Number of changes that the run did not apply, since they would touch frozen rows; absent for none.

    UNFROZEN for a run that changed frozen rows on request.
    """

    frozen_total: str | None = None
    """Number of such changes of all runs since one that computed frozen rows too; absent for none.

    If it is absent, the table has the rows of its query.
    """

    position: str | None = None
    """Position in a source of change data up to which the table has all events, as a text of the source's transport."""

    position_events: str | None = None
    """Number of events after `position` that the table has as well; absent for none."""

    source_time_ms: int | None = None
    """Time at which the source made the newest change in the commit, in milliseconds since 1970."""

    shown_before_ms: int | None = None
    """Time as of which the table showed its source just before the commit, in milliseconds since 1970."""

    letters: str | None = None
    """The dead letters that the commit applied, as JSON; only for a table without a key."""

    truncated: str | None = None
    """The highest value of `sequence_by` of an event that emptied the table; older events no longer apply."""

    newest_valid_time: str | None = None
    """The latest value of `valid_time` that a bitemporal table has read."""

    day_texts: str | None = None
    """The upstream that has texts with a time but no date, which the query reads as times on the day of the run."""

    clock: ClockReading | None = None
    """The time with which the query was computed; None if the query does not read the clock."""

    cut: str | None = None
    """The cut of a build to which the table was restored, if the model's query was not that of the cut by then."""

    where: str | None = None
    """The predicate of a restatement."""

    forward: ForwardEdit | None = None
    """The newest edit of the query after which the table went forward; None if all rows are of one query."""

    promoted: Mapping[str, Version] | None = None
    """The clone whose rows the commit took over, with the version that the last run of the clone has made."""

    @classmethod
    def decode(cls, summary: Mapping[str, str]) -> RunSummary:
        """Reads the record from a snapshot's summary; raises CorruptState for offsets that can't be read."""
        texts = {field: summary.get(key) for field, key in _TEXTS.items()}
        started, estimated = summary.get(properties.STARTED), summary.get(properties.ESTIMATED)
        source_time, shown_before = summary.get(properties.SOURCE_TIME), summary.get(properties.SHOWN_BEFORE)
        return cls(
            **texts,
            offsets=decode_versions(summary[properties.OFFSETS]) if properties.OFFSETS in summary else None,
            promoted=decode_versions(summary[properties.PROMOTED]) if properties.PROMOTED in summary else None,
            declared=_decode_declared(summary),
            clock=ClockReading.decode(summary[properties.CLOCK]) if properties.CLOCK in summary else None,
            forward=ForwardEdit.decode(summary[properties.FORWARD_EDIT])
            if properties.FORWARD_EDIT in summary
            else None,
            started_ms=None if started is None else int(started),
            estimated=None if estimated is None else float(estimated),
            source_time_ms=None if source_time is None else int(source_time),
            shown_before_ms=None if shown_before is None else int(shown_before),
        )

    def encode(self) -> dict[str, str]:
        """Returns the record as entries of a snapshot's summary, without those that are None."""
        texts = {key: getattr(self, field) for field, key in _TEXTS.items()}
        entries = {
            **texts,
            properties.CLOCK: None if self.clock is None else self.clock.encode(),
            properties.FORWARD_EDIT: None if self.forward is None else self.forward.encode(),
            properties.OFFSETS: None if self.offsets is None else encode_versions(self.offsets),
            properties.PROMOTED: None if self.promoted is None else encode_versions(self.promoted),
            properties.STARTED: None if self.started_ms is None else str(self.started_ms),
            properties.ESTIMATED: None if self.estimated is None else f"{self.estimated:.3f}",
            properties.SOURCE_TIME: None if self.source_time_ms is None else str(self.source_time_ms),
            properties.SHOWN_BEFORE: None if self.shown_before_ms is None else str(self.shown_before_ms),
            **_encode_declared(self.declared or Declared()),
        }
        return {key: entry for key, entry in entries.items() if entry is not None}

    def with_entries_from(self, other: RunSummary) -> RunSummary:
        """Returns the record with its entries replaced by those of `other` that are not None."""
        entries = {field.name: getattr(other, field.name) for field in fields(other)}
        return replace(self, **{name: entry for name, entry in entries.items() if entry is not None})

    def select_row_entries(self) -> RunSummary:
        """Returns the entries that describe the rows: by what they were computed, and up to which offsets.

        They also hold for a later commit with which the table has these rows again.
        """
        return RunSummary(
            offsets=self.offsets,
            refresh_state=self.refresh_state,
            query=self.query,
            session=self.session,
            given_up=self.given_up,
            judged=self.judged,
            day_texts=self.day_texts,
            clock=self.clock,
            forward=self.forward,
            high_watermark=self.high_watermark,
            truncated=self.truncated,
            declared=self.declared,
            frozen_total=self.frozen_total,
            position=self.position,
            position_events=self.position_events,
        )

    def to_repeat(self, mode: str, reason: str) -> RunSummary:
        """Returns a copy of the record for another commit with the same offsets, such as that of a restore.

        The next run then continues from the same versions of the upstreams. `mode` and `reason` are those of the other
        commit. Entries about the run itself are removed: its start, estimate, repairs, kind of changelog and predicate,
        and the changes that it did not apply.
        """
        rest = replace(self, started_ms=None, estimated=None, repaired=None, changelog=None, where=None, frozen=None)
        return replace(rest, mode=mode, reason=reason, promoted=None)

    def count_frozen(self) -> int:
        """Number of changes that the run did not apply, since they would touch frozen rows."""
        return 0 if self.frozen is None or self.frozen == UNFROZEN else int(self.frozen)


_TEXTS: Mapping[str, str] = {
    "run": properties.RUN,
    "mode": properties.MODE,
    "reason": properties.REASON,
    "refresh_state": properties.REFRESH_STATE,
    "query": properties.QUERY,
    "session": properties.SESSION,
    "high_watermark": properties.HIGH_WATERMARK,
    "truncated": properties.TRUNCATED,
    "newest_valid_time": properties.NEWEST_VALID_TIME,
    "restored": properties.RESTORED,
    "cut": properties.RESTORED_CUT,
    "where": properties.RESTATED_WHERE,
    "aggregate_state": properties.AGGREGATE_STATE,
    "no_aggregate_state": properties.NO_AGGREGATE_STATE,
    "given_up": properties.GIVEN_UP,
    "judged": properties.JUDGED,
    "day_texts": properties.DAY_TEXTS,
    "changelog": properties.CHANGELOG,
    "repaired": properties.REPAIRED,
    "frozen": properties.FROZEN,
    "frozen_total": properties.FROZEN_TOTAL,
    "position": properties.POSITION,
    "position_events": properties.POSITION_EVENTS,
    "letters": properties.LETTERS,
}
"""Maps fields of `RunSummary` that are stored unchanged, because they are texts, to their stored names."""


def _decode_declared(summary: Mapping[str, str]) -> Declared | None:
    parts = json.loads(summary.get(properties.DECLARED_PARTS, "[]"))
    points = {tuple((name, value) for name, value in part): point for part, point in parts}
    if properties.DECLARED in summary:
        points = {(): summary[properties.DECLARED], **points}
    return Declared(points) if points else None


def _encode_declared(declared: Declared) -> dict[str, str]:
    parts = [[list(part), point] for part, point in declared.points.items() if part]
    whole = {properties.DECLARED: declared.points[()]} if () in declared.points else {}
    return {**whole, **({properties.DECLARED_PARTS: json.dumps(parts)} if parts else {})}


def describe_frozen(count: int) -> str:
    """Describes for users how many changes were not applied, since they would touch frozen rows; empty for none."""
    return f"frozen: {count:,} change{'' if count == 1 else 's'} not applied" if count else ""


def is_run(commit: Commit) -> bool:
    """Whether a commit was made by a run, a restore or an overwrite, rather than by maintenance."""
    return properties.RUN in commit.summary


def is_load(commit: Commit) -> bool:
    """Whether a commit was made by a run, a restore or an overwrite that loaded data, and not only columns."""
    return is_run(commit) and commit.summary.get(properties.MODE) != SCHEMA_ONLY


def run_commits(changes: ChangeTableState | None) -> tuple[Commit, ...]:
    """Returns the commits of `changes` that runs, restores or overwrites made, oldest first; empty for None.

    Commits whose snapshots have expired are not included.
    """
    return tuple(commit for commit in changes.commits if is_run(commit)) if changes else ()


def find_last_load(changes: ChangeTableState | None) -> Commit | None:
    """Returns the newest commit of a run that loaded data (mode other than `schema-only`); None if there is none."""
    return next(filter(is_load, reversed(changes.commits if changes else ())), None)


def find_last_run(changes: ChangeTableState | None) -> RunSummary | None:
    """Returns the record of the newest run that loaded data (mode other than `schema-only`); None if there is none."""
    last = find_last_load(changes)
    return _move_forward_edit(RunSummary.decode(last.summary), last) if last else None


def _move_forward_edit(run: RunSummary, commit: Commit) -> RunSummary:
    """Returns the record of a commit whose rows may be of earlier queries, with an edit that is as late as the commit.

    Those of a restore may be, and the first ones of a clone, which has the edit of its origin.
    """
    edit = run.forward
    if edit is None or (run.reason != "RESTORED" and edit.version.table == commit.version.table):
        return run
    return replace(run, forward=replace(edit, version=commit.version))


def find_run_at(changes: ChangeTableState | None, commit: Commit) -> RunSummary:
    """Returns the record of the newest run that loaded data up to `commit`, which may be one of maintenance.

    It is the record of `commit` itself if that run has expired.
    """
    known = [one for one in run_commits(changes) if one.version.sequence <= commit.version.sequence]
    loads = [one for one in known if one.summary.get(properties.MODE) != SCHEMA_ONLY]
    return RunSummary.decode((loads[-1] if loads and not is_run(commit) else commit).summary)


def find_refresh_state(changes: ChangeTableState | None, version: Version) -> str | None:
    """Returns the refresh state of the newest run that loaded data up to `version`; None if it has expired or has none.

    It is that of the rows which a base table with the changes up to `version` has.
    """
    runs = (commit for commit in reversed(run_commits(changes)) if commit.version.sequence <= version.sequence)
    last = next((run for run in runs if run.summary.get(properties.MODE) != SCHEMA_ONLY), None)
    return None if last is None else last.summary.get(properties.REFRESH_STATE)


def find_awaited_cut(changes: ChangeTableState | None) -> str | None:
    """Returns the cut for whose query the runs of a restored table wait; None if they don't wait for any.

    They wait until a run has this query again, or until `arctic resume`.
    """
    last = find_last_run(changes)
    if changes is None or last is None or changes.properties.get(properties.RESUMED) == last.run:
        return None
    return last.cut


def is_planned_increment(commit: Commit) -> bool:
    """Whether the run that made `commit` was planned as an incremental refresh, even if it became a full one."""
    return commit.summary.get(properties.MODE) == "incremental" or properties.GIVEN_UP in commit.summary


def read_measured_seconds(commit: Commit) -> tuple[str, float, float] | None:
    """Returns mode, actual seconds and estimated seconds of the run of a commit; None if it has stored no estimate."""
    summary = commit.summary
    keys = (properties.MODE, properties.STARTED, properties.ESTIMATED)
    if any(key not in summary for key in keys):
        return None
    mode, started, estimated = (summary[key] for key in keys)
    return mode, (commit.at_ms - int(started)) / 1000, float(estimated)


def get_offsets(run: RunSummary | None) -> Mapping[str, Version]:
    """Returns the offsets that a run recorded, by upstream name; empty before the first run (None)."""
    return (run.offsets if run else None) or {}


def find_version_at(commits: Iterable[Commit], position: str, parse: ParsePosition) -> Commit | None:
    """Returns the newest of a table's `commits` at which the table has no events after `position` of its source.

    `commits` are sorted, the oldest first, and `parse` parses positions of the source. Returns None if `position` is
    inside of a transaction or a snapshot, or if the commit has expired.
    """
    end = parse(position)
    if not end.is_transaction_end:
        return None
    newest, match = None, None
    for commit in commits:
        run = RunSummary.decode(commit.summary)
        newest = run.position or newest
        if newest is not None and parse(newest).is_within(end) and not run.position_events:
            match = commit
    return match
