"""A catalog that compares and swaps, in memory: tables are snapshots, refs and what they hold; there is no Spark.

As Iceberg does, a commit makes a branch anew that is not there any more, on top of what main is then.

Operations are generators that stop before each touch of the catalog, so that a test decides who goes next. What they do
is planned by the real functions (`decide_refresh`, `check_not_overtaken`, `plan_reconciliation`, `plan_branch_cleanup`,
`explain_refused_publish` and `plan_snapshot_expiry`). Nobody waits before dropping a branch that main has left behind,
so writers lose theirs at any moment.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Generator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.expiry import DatedSnapshot as KeptSnapshot
from arctic_runtime.model.files.expiry import Snapshots, SnapshotUse
from arctic_runtime.model.files.layout import format_layout
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.properties import ATTEMPT, BRANCH_PREFIX, LAYOUT, MODE, OFFSETS, PRIMARY_KEY, REASON, RUN
from arctic_runtime.model.refs import BranchCommit, BranchState, explain_refused_publish
from arctic_runtime.model.run_summary import find_last_run, get_offsets
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, SourceState, TableState, ViewState
from arctic_runtime.model.step import (
    CreateBase,
    DropBranches,
    MergeBase,
    ReplaceView,
    Step,
)
from arctic_runtime.model.table import Merge, Model, ModelConfig, Retention
from arctic_runtime.model.version import Version, Window, decode_versions, encode_versions
from arctic_runtime.plan.maintenance.expiry import plan_snapshot_expiry
from arctic_runtime.plan.refresh.decide import check_not_overtaken, decide_refresh
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.reconcile import plan_branch_cleanup, plan_reconciliation
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.thresholds import Thresholds

Rows = dict[int, str]
Change = tuple[int, "str | None", "str | None"]
"""A key, its value before and its value after; None where there is no row."""
Operation = Generator[str, None, None]

TABLE = TableName("lake", "dwd", "m")
EVENTS = TableName("lake", "dwd", "events")
MERGED = "arctic.merged"
MAX_ATTEMPTS = 5
COLUMNS = (Column("id", "int"), Column("v", "string"))
LONG_AFTER = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True)
class Snap:
    """A snapshot: what it adds to a log, or all that a base holds then."""

    id: int
    sequence: int
    parent: int | None
    operation: str
    content: Any
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Counter:
    """Counts from 1 on."""

    last: int = 0

    def __call__(self) -> int:
        self.last += 1
        return self.last


@dataclass
class Table:
    """A table of the catalog. Every method is one atomic touch; it raises CommitConflict as Iceberg would."""

    uuid: str
    clock: Callable[[], int]
    snaps: dict[int, Snap] = field(default_factory=dict)
    refs: dict[str, int] = field(default_factory=dict)
    sequence: int = 0

    def commit(self, branch: str, operation: str, content: Any, summary: Mapping[str, str]) -> Snap:
        self.sequence += 1
        parent = self.refs.get(branch, self.refs.get("main"))
        made = Snap(self.clock(), self.sequence, parent, operation, content, summary)
        self.snaps[made.id] = made
        self.refs[branch] = made.id
        return made

    def branch(self, name: str, at: int) -> None:
        if at not in self.snaps:
            raise CommitConflict(f"snapshot {at} is gone")
        self.refs[name] = at

    def state(self, name: str) -> BranchState:
        commits = {of.id: BranchCommit(of.parent, of.operation, of.summary.get(ATTEMPT)) for of in self.snaps.values()}
        return BranchState(self.refs.get("main"), self.refs.get(name), commits)

    def fast_forward(self, name: str) -> None:
        if name not in self.refs:
            raise CommitConflict(f"Ref does not exist: {name}")
        if self.refs["main"] not in [snap.id for snap in self.lineage(name)]:
            raise CommitConflict("main is not an ancestor")
        self.refs["main"] = self.refs[name]

    def expire(self, ids: tuple[int, ...]) -> None:
        if set(ids) & set(self.refs.values()):
            raise CommitConflict("Still referenced by refs")
        for gone in ids:
            self.snaps.pop(gone, None)

    def lineage(self, ref: str = "main") -> list[Snap]:
        """Oldest first, as far as kept."""
        found, at = [], self.refs.get(ref)
        while at is not None and at in self.snaps:
            found.append(self.snaps[at])
            at = self.snaps[at].parent
        return found[::-1]

    def version(self, snap: Snap) -> Version:
        return Version(self.uuid, snap.id, snap.sequence)


@dataclass
class Lake:
    """One model of change events, its source, and everything that was ever committed to its change table."""

    merge: Merge
    log: Table = field(init=False)
    base: Table = field(init=False)
    source: Table = field(init=False)
    view: ViewState | None = None
    ids: Counter = field(default_factory=Counter)
    tokens: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.log, self.base, self.source = (Table(name, self.ids) for name in ("log", "base", "source"))
        config = ModelConfig(
            ("id",), hash_key="id", merge=self.merge, input="changes", sequence_by="lsn", retention=Retention(1)
        )
        self.model = Model(TABLE, f"select * from `{format_changes_view(EVENTS)}`", config)
        self.history: list[Snap] = []

    def copy(self) -> Lake:
        """A lake with the same contents, which changes on its own; both share the snapshots, which never change."""
        made = copy(self)
        made.ids, made.tokens, made.history = copy(self.ids), copy(self.tokens), list(self.history)
        made.log, made.base, made.source = (
            replace(table, clock=made.ids, snaps=dict(table.snaps), refs=dict(table.refs))
            for table in (self.log, self.base, self.source)
        )
        return made

    # What everybody sees

    def shown(self) -> tuple[Version | None, Rows]:
        """The version that readers see, and the rows."""
        if self.merge == "on_write":
            return self.merged(self.base.lineage()), dict(self.base.snaps[self.base.refs["main"]].content)
        assert self.view is not None
        assert self.view.base_snapshot is not None
        rows = dict(self.base.snaps[self.view.base_snapshot].content)
        head = self.log.snaps[self.view.head or 0]
        start = self.log.snaps[self.view.merged or 0]
        for snap in self.log.lineage():
            if start.sequence < snap.sequence <= head.sequence and snap.operation == "append":
                rows = applied(rows, snap.content)
        return self.log.version(head), rows

    def merged(self, lineage: list[Snap]) -> Version | None:
        merges = (snap.summary[MERGED] for snap in reversed(lineage) if MERGED in snap.summary)
        return decode_versions(next(merges, None)).get("changes")

    def folded(self, until: int) -> Rows:
        """All change rows up to a sequence number, also of snapshots that are gone: their rows are not."""
        rows: Rows = {}
        for snap in self.history:
            rows = applied(rows, snap.content) if snap.sequence <= until else rows
        return rows

    # Observation

    def observe(self) -> TableState:
        commits = tuple(self._commit(self.log, snap) for snap in self.log.lineage())
        changes = ChangeTableState("log", COLUMNS, commits, {PRIMARY_KEY: "id"}, *refs(self.log))
        lineage = self.base.lineage()
        if not lineage:
            return TableState(changes if commits else None)
        properties = {LAYOUT: format_layout(self.model.config)}
        newest, rows = lineage[-1], len(lineage[-1].content)
        base = BaseState("base", COLUMNS, newest.id, self.merged(lineage), rows, properties, *refs(self.base))
        return TableState(changes, base, self.view)

    def upstreams(self) -> Upstreams:
        commits = tuple(self._commit(self.source, snap) for snap in self.source.lineage())
        state = SourceState(EVENTS, "table", commits[-1].version, commits, COLUMNS, 3)
        return Upstreams({str(EVENTS): state})

    def snapshots(self, name: TableName, table: Table) -> Snapshots:
        lineage = table.lineage()
        behind = {snap.id for snap in lineage}
        held = {at for ref, at in table.refs.items() if ref != "main"}
        for ref in table.refs:
            held |= {snap.id for snap in table.lineage(ref)} - behind if ref != "main" else set()
        others = (snap for snap in table.snaps.values() if snap.id not in behind)
        return Snapshots(name, tuple(map(_kept, lineage)), tuple(map(_kept, others)), frozenset(held))

    def _commit(self, table: Table, snap: Snap) -> Commit:
        rows = len(snap.content) if snap.operation == "append" else 0
        return Commit(table.version(snap), snap.parent, snap.operation, rows, 1, snap.summary, 0)

    # Operations

    def load(self, events: Rows) -> None:
        """Events come to the source; an empty value deletes."""
        self.source.commit("main", "append", events, {})

    def run(self) -> Operation:
        yield from retried(self._run)

    def feed(self, events: Rows) -> Operation:
        """Events come, and a run reads them."""
        yield "load"
        self.load(events)
        yield from self.run()

    def compact(self) -> Operation:
        """Writes the base anew and says again what it is merged to; then the change table."""
        yield from retried(self._compact)

    def expire(self) -> Operation:
        yield from retried(self._expire)

    def restore(self, version: int) -> Operation:
        yield from retried(lambda: self._restore(version))

    def _run(self) -> Operation:
        yield "observe"
        planned, upstreams = self.observe(), self.upstreams()
        decision = decide_refresh(self.model, planned, upstreams, Request())
        state = yield from self.reconciled(planned)
        if decision.mode == "unchanged":
            return
        check_not_overtaken(planned, state, "reconcile")
        if state.changes is None:
            yield "create"
            if not self.log.snaps:
                self.history.append(self.log.commit("main", "append", [], {}))
            state = self.observe()
        yield from self.cleared(state)
        said = {MODE: decision.mode, REASON: decision.reason, OFFSETS: encode_versions(decision.consumed)}
        yield from self.append(state, self._events(decision.windows[str(EVENTS)]), said)
        yield "observe"
        yield from self.reconciled(self.observe())

    def cleared(self, state: TableState) -> Operation:
        for step in plan_branch_cleanup(self.model, state, LONG_AFTER, Thresholds().expiry):
            yield from self.perform(step, state)

    def _compact(self) -> Operation:
        yield "observe"
        state = yield from self.reconciled(self.observe())
        yield from self.cleared(state)
        assert state.base is not None
        assert state.base.merged is not None
        content, merged = self.base.snaps[state.base.snapshot].content, state.base.merged
        yield from self.swap(
            self.base, state.base.snapshot, [("replace", content, {}), ("append", content, merged_to(merged))]
        )
        yield "observe"
        state = yield from self.reconciled(self.observe())
        assert state.changes is not None
        assert state.changes.head is not None
        yield from self.swap(self.log, state.changes.head.snapshot, [("replace", [], {})])

    def _expire(self) -> Operation:
        yield "observe"
        tables = {TABLE.changes: self.log, self.model.base: self.base}
        found = [self.snapshots(name, table) for name, table in tables.items()]
        plan = plan_snapshot_expiry(self.model, self.observe(), SnapshotUse(found), 10_000, Thresholds())
        for step in plan.steps:
            yield "expire"
            tables[step.table].expire(step.snapshots)

    def _restore(self, version: int) -> Operation:
        yield "observe"
        state = yield from self.reconciled(self.observe())
        if version not in self.log.snaps:
            raise ConfigError(f"there is no version {version}")
        then = self.folded(self.log.snaps[version].sequence)
        assert state.changes is not None
        now = self.folded(state.changes.commits[-1].version.sequence)
        wanted = {key: then.get(key, "") for key in {*now, *then}}
        last = find_last_run(state.changes)
        said = {MODE: "full", REASON: "RESTORED", OFFSETS: encode_versions(get_offsets(last))}
        yield from self.append(state, wanted, said)
        yield "observe"
        yield from self.reconciled(self.observe())

    def _events(self, window: Window) -> Rows:
        after = window.start.sequence if window.start else 0
        found: Rows = {}
        for snap in self.source.lineage():
            found |= snap.content if after < snap.sequence <= window.end.sequence else {}
        return found

    def append(self, state: TableState, events: Rows, said: Mapping[str, str]) -> Operation:
        """The transaction: exact changes against the rows as observed, if the table still is so."""
        assert state.changes is not None
        assert state.changes.head is not None
        old = self.folded(state.changes.head.sequence)
        changes = [(key, old.get(key), value or None) for key, value in events.items()]
        exact = [change for change in changes if change[1] != change[2]]
        yield from self.swap(
            self.log, state.changes.head.snapshot, [("append", exact, {RUN: str(self.tokens()), **said})]
        )
        self.history.append(self.log.snaps[self.log.refs["main"]])

    def reconciled(self, state: TableState) -> Generator[str, None, TableState]:
        while steps := plan_reconciliation(self.model, state, Thresholds().merge):
            for step in steps:
                yield from self.perform(step, state)
            yield "observe"
            state = self.observe()
        return state

    def perform(self, step: Step, state: TableState) -> Operation:
        match step:
            case CreateBase(_, version):
                yield "create base"
                if not self.base.snaps:
                    self.base.commit("main", "append", self.folded(version.sequence), merged_to(version))
            case MergeBase(_, expected, start, end):
                rows = dict(self.base.snaps[expected].content) if expected in self.base.snaps else {}
                halfway = dict(rows)
                for snap in self.history:
                    if (start.sequence if start else 0) < snap.sequence <= end.sequence:
                        rows = applied(rows, snap.content)
                        halfway = {key: v for key, v in halfway.items() if key not in {c[0] for c in snap.content}}
                yield from self.swap(self.base, expected, [("delete", halfway, {}), ("append", rows, merged_to(end))])
            case ReplaceView(_, base_snapshot, merged, head):
                yield "tag"
                self.base.branch(f"arctic_view_{base_snapshot}", base_snapshot)
                yield "replace view"
                self.view = ViewState(COLUMNS, base_snapshot, merged.snapshot, head.snapshot)
            case DropBranches(table, names):
                yield "drop branches"
                for name in names:
                    (self.log if table == TABLE.changes else self.base).refs.pop(name, None)
            case _:
                raise AssertionError(f"{step} is not asked for here")

    def swap(self, table: Table, expected: int, commits: list[tuple[str, Any, Mapping[str, str]]]) -> Operation:
        """Writes on a branch, which nobody sees; to move main there is the touch that counts."""
        name = f"{BRANCH_PREFIX}{self.tokens()}"
        yield "branch"
        table.branch(name, expected)
        try:
            for operation, content, summary in commits:
                yield "write"
                table.commit(name, operation, content, {ATTEMPT: name, **summary})
            yield "check"
            reason = explain_refused_publish(table.state(name), expected, name)
            if reason is not None:
                raise CommitConflict(reason)
            yield "fast-forward"
            table.fast_forward(name)
        finally:
            table.refs.pop(name, None)


def retried(attempt: Callable[[], Operation]) -> Operation:
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            yield from attempt()
        except CommitConflict:
            continue
        except ConfigError:
            return
        return
    yield from attempt()


def applied(rows: Rows, changes: list[Change]) -> Rows:
    after = dict(rows)
    for key, _, value in changes:
        after.pop(key, None)
        after |= {} if value is None else {key: value}
    return after


def merged_to(version: Version) -> dict[str, str]:
    return {MERGED: encode_versions({"changes": version})}


def refs(table: Table) -> tuple[dict[str, int], dict[int, int | None], dict[int, int]]:
    """Branches, parents of snapshots, and their times, which are long ago."""
    tips = {name: at for name, at in table.refs.items() if not name.startswith("arctic_view")}
    return tips, {snap.id: snap.parent for snap in table.snaps.values()}, dict.fromkeys(table.snaps, 0)


def _kept(snap: Snap) -> KeptSnapshot:
    return KeptSnapshot(snap.id, snap.sequence, 0, decode_versions(snap.summary.get(MERGED)).get("changes"))
