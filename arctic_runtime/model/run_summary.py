"""Record of a run, which is stored in the snapshot summary of the run's commit to the change table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from arctic_runtime.model import properties
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.version import Version, decode_versions, encode_versions

SCHEMA_ONLY = "schema-only"


@dataclass(frozen=True)
class RunSummary:
    """Record of a run, a restore or an overwrite in the summary of its commit; absent entries are None.

    `docs/architecture.md` describes each entry under its stored name. `started_ms`, `source_time_ms` and
    `shown_before_ms` are milliseconds since 1970, and `estimated` is in seconds.
    """

    run: str | None = None
    mode: str | None = None
    reason: str | None = None
    offsets: Mapping[str, Version] | None = None
    query: str | None = None
    session: str | None = None
    high_watermark: str | None = None
    restored: str | None = None
    declared: Declared | None = None
    aggregate_state: str | None = None
    no_aggregate_state: str | None = None
    given_up: str | None = None
    judged: str | None = None
    started_ms: int | None = None
    estimated: float | None = None
    changelog: str | None = None
    repaired: str | None = None
    position: str | None = None
    position_events: str | None = None
    source_time_ms: int | None = None
    shown_before_ms: int | None = None
    letters: str | None = None
    truncated: str | None = None
    newest_valid_time: str | None = None
    day_texts: str | None = None

    @classmethod
    def decode(cls, summary: Mapping[str, str]) -> RunSummary:
        """Reads the record from a snapshot's summary; raises CorruptState for offsets that can't be read."""
        texts = {field: summary.get(key) for field, key in _TEXTS.items()}
        started, estimated = summary.get(properties.STARTED), summary.get(properties.ESTIMATED)
        source_time, shown_before = summary.get(properties.SOURCE_TIME), summary.get(properties.SHOWN_BEFORE)
        return cls(
            **texts,
            offsets=decode_versions(summary[properties.OFFSETS]) if properties.OFFSETS in summary else None,
            declared=_decode_declared(summary),
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
            properties.OFFSETS: None if self.offsets is None else encode_versions(self.offsets),
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

    def to_repeat(self, mode: str, reason: str) -> RunSummary:
        """Returns a copy of the record for another commit with the same offsets, such as that of a restore.

        The next run then continues from the same versions of the upstreams. `mode` and `reason` are those of the other
        commit. Entries about the run itself are removed: its start, estimate, repairs and kind of changelog.
        """
        return replace(self, mode=mode, reason=reason, started_ms=None, estimated=None, repaired=None, changelog=None)


_TEXTS: Mapping[str, str] = {
    "run": properties.RUN,
    "mode": properties.MODE,
    "reason": properties.REASON,
    "query": properties.QUERY,
    "session": properties.SESSION,
    "high_watermark": properties.HIGH_WATERMARK,
    "truncated": properties.TRUNCATED,
    "newest_valid_time": properties.NEWEST_VALID_TIME,
    "restored": properties.RESTORED,
    "aggregate_state": properties.AGGREGATE_STATE,
    "no_aggregate_state": properties.NO_AGGREGATE_STATE,
    "given_up": properties.GIVEN_UP,
    "judged": properties.JUDGED,
    "day_texts": properties.DAY_TEXTS,
    "changelog": properties.CHANGELOG,
    "repaired": properties.REPAIRED,
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


def is_run(commit: Commit) -> bool:
    """Whether a commit was made by a run, a restore or an overwrite, rather than by maintenance."""
    return properties.RUN in commit.summary


def run_commits(changes: ChangeTableState | None) -> tuple[Commit, ...]:
    """Returns the commits of `changes` that runs, restores or overwrites made, oldest first; empty for None.

    Commits whose snapshots have expired are not included.
    """
    return tuple(commit for commit in changes.commits if is_run(commit)) if changes else ()


def find_last_load(changes: ChangeTableState | None) -> Commit | None:
    """Returns the newest commit of a run that loaded data (mode other than `schema-only`); None if there is none."""
    runs = filter(is_run, reversed(changes.commits if changes else ()))
    return next((commit for commit in runs if commit.summary.get(properties.MODE) != SCHEMA_ONLY), None)


def find_last_run(changes: ChangeTableState | None) -> RunSummary | None:
    """Returns the record of the newest run that loaded data (mode other than `schema-only`); None if there is none."""
    last = find_last_load(changes)
    return RunSummary.decode(last.summary) if last else None


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
