"""Bugs that are planted into runs, to prove that the simulation finds such bugs: each breaks one rule of the design."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any
from unittest import mock

from arctic_runtime.catalog.branch.catalog_pointers import PointerChange
from arctic_runtime.catalog.branch.database_pointers import DatabasePointers
from arctic_runtime.ingest.dead_letters.outcome import CommitWindow
from arctic_runtime.ingest.job.batch_writer import BatchWriter
from arctic_runtime.ingest.writing import keyed
from arctic_runtime.ingest.writing.table_writer import TableWriter
from arctic_runtime.ivm.edits import edit
from arctic_runtime.model.files.expiry import DropTags, ExpireSnapshots, ExpiryPlan
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import ChangeSet
from arctic_runtime.model.version import Window
from arctic_runtime.spark.maintenance import expiry
from arctic_runtime.spark.tables import commit
from arctic_runtime.spark.tables.context import Appended, Context
from tests.simulation import dead_letters, runtime
from tests.simulation import spark as modelled
from tests.simulation.builds import Database
from tests.simulation.lake import Catalog, Name, Ref
from tests.simulation.rows import diff_rows
from tests.simulation.threads import read_wall_clock
from tests.simulation.world import World

Plant = Callable[[World], Any]

_publish = modelled.publish_changes
_read_events = runtime.read_events
_write_batch = BatchWriter.write_batch
_write_events = TableWriter.write_events


@contextmanager
def commit_offsets_before_rows(_: World) -> Iterator[None]:
    """A run commits its offsets first, and its rows in a second commit."""

    def publish(changes: ChangeSet, context: Context, *_: object) -> Appended:
        offsets = _publish(replace(changes, rows=[]), context)  # type: ignore[arg-type]
        table = context.spark.lake.get_table((changes.commit.table.schema, changes.commit.table.name))
        step = replace(changes.commit, expected=table.current_snapshot_id)
        if not changes.rows:
            return offsets
        return _publish(replace(changes, commit=step, summary=RunSummary()), context)

    with mock.patch.object(modelled, "publish_changes", publish), mock.patch.object(keyed, "publish_changes", publish):
        yield


@contextmanager
def publish_without_comparison(_: World) -> Iterator[None]:
    """Main is set to a branch wherever main is by then."""

    def fast_forward(lake: Catalog, name: Name, branch: str) -> None:
        table = lake.get_table(name)
        lake.put(replace(table, refs={**table.refs, "main": Ref(table.refs[branch].snapshot_id, "branch")}))

    with (
        mock.patch.object(Catalog, "fast_forward", fast_forward),
        mock.patch.object(commit, "explain_refused_publish", return_value=None),
    ):
        yield


@contextmanager
def expire_what_views_read(_: World) -> Iterator[None]:
    """Expiry keeps only the newest snapshot of each table, whoever reads others."""

    def plan(model: Any, state: Any, use: Any, *_: object) -> ExpiryPlan:
        steps = [
            ExpireSnapshots(table.table, tuple(one.id for one in table.lineage[:-1] if one.id not in table.held))
            for table in use.tables
            if len(table.lineage) > 1
        ]
        tags = [DropTags(table.table, tuple(table.view_tags)) for table in use.tables if table.view_tags]
        return ExpiryPlan(tuple(steps), (), tags=tuple(tags))

    with (
        mock.patch.object(expiry, "plan_snapshot_expiry", plan),
        mock.patch.object(expiry, "may_expire", return_value=True),
        mock.patch.object(expiry, "select_due_steps", lambda model, state, plan, thresholds: plan),
    ):
        yield


@contextmanager
def claim_freshness_before_commit(_: World) -> Iterator[None]:
    """Ingestion saves how far it has come before it has written the batch."""

    def write_batch(self: Any, batch: Any, mode: Any) -> Any:
        now = datetime.fromtimestamp(read_wall_clock(), timezone.utc)
        self.dead_letters.save_progress(replace(self.dead_letters.read_progress(), caught_up=now))
        return _write_batch(self, batch, mode)

    with mock.patch.object(BatchWriter, "write_batch", write_batch):
        yield


@contextmanager
def forget_positions(_: World) -> Iterator[None]:
    """A table applies events that it has already, although others came after them."""
    with mock.patch.object(runtime, "is_known", return_value=True):
        yield


@contextmanager
def publish_one_after_another(_: World) -> Iterator[None]:
    """A build publishes each table by itself, although the catalog has transactions."""
    with mock.patch.object(DatabasePointers, "plan_steps", lambda _, changes: [[change] for change in changes]):
        yield


@contextmanager
def publish_over_others(_: World) -> Iterator[None]:
    """A build publishes its tables whatever others have committed to them since it began."""

    def apply_changes(self: Database, changes: Sequence[PointerChange]) -> list[TableName]:
        for change in changes:
            if change.after is not None:
                self.set_pointer(change.table, change.after.file)
        return []

    with mock.patch.object(Database, "apply_changes", apply_changes):
        yield


@contextmanager
def keep_dead_letters_after_rows(_: World) -> Iterator[None]:
    """Ingestion keeps the events that can't be applied after it has committed the others."""

    def write_events(self: Any, part: Any, mode: Any, keep: Any) -> Any:
        letters: list[Any] = []
        result = _write_events(self, part, mode, letters.append)
        for own in letters:
            keep(own)
        return result

    with mock.patch.object(TableWriter, "write_events", write_events):
        yield


@contextmanager
def replay_over_newer_rows(_: World) -> Iterator[None]:
    """A replay applies each dead letter, although its row has changed since."""
    window = CommitWindow(2**62, None, is_own=False, is_known=True)
    with mock.patch.object(dead_letters, "find_commit_window", return_value=window):
        yield


@contextmanager
def drop_changes_of_nothing(_: World) -> Iterator[None]:
    """Beside dead letters, an event that changes nothing leaves no change row."""

    def diff_changed(old: Any, new: Any, _: Any = ()) -> Any:
        return diff_rows(old, new)

    with mock.patch.object(runtime, "diff_rows", diff_changed):
        yield


@contextmanager
def read_events_again(_: World) -> Iterator[None]:
    """A run of a model of change events reads the last commit that the run before it has read again."""

    def read(lake: Catalog, source: TableName, window: Window) -> Any:
        start = window.start and replace(window.start, sequence=window.start.sequence - 1)
        return _read_events(lake, source, replace(window, start=start))

    with mock.patch.object(runtime, "read_events", read):
        yield


@contextmanager
def edit_without_conditions(_: World) -> Iterator[None]:
    """A run takes each condition that an edit adds for one that all rows of the table fulfil."""
    with mock.patch.object(edit, "is_implied", return_value=True):
        yield


BUGS: Mapping[str, Plant] = {
    "offsets-before-rows": commit_offsets_before_rows,
    "publish-without-comparison": publish_without_comparison,
    "expire-what-views-read": expire_what_views_read,
    "freshness-before-commit": claim_freshness_before_commit,
    "known-events-again": forget_positions,
    "builds-in-steps": publish_one_after_another,
    "builds-over-others": publish_over_others,
    "dead-letters-after-rows": keep_dead_letters_after_rows,
    "replay-over-newer-rows": replay_over_newer_rows,
    "no-change-no-row": drop_changes_of_nothing,
    "events-twice": read_events_again,
    "edit-without-conditions": edit_without_conditions,
}
