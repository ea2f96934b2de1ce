"""Performs all effects on a catalog or on storage, in one function, `perform_effect`.

An effect creates, changes or deletes a table, a view, a branch, a tag, a namespace or files. Each effect has a name in
the registry `EFFECTS`. Because one function performs all effects, waits for locks are implemented in one place, and a
test can kill the process, or raise an error, before or after any effect by its name (a failpoint). Without failpoints
this costs one comparison with None.

This module imports neither Spark nor pyiceberg: the modules for these libraries each define an `Engine`, which
classifies the library's errors.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from typing_extensions import assert_never

from arctic_runtime.catalog_kinds.missing_rights import to_rights_error
from arctic_runtime.errors import CatalogError, CommitConflict, ConfigError
from arctic_runtime.thresholds import CommitThresholds

T = TypeVar("T")

Kind = Literal["repeatable", "once"]
FailureKind = Literal["locked", "conflict", "refused", "unwritable"]
Failpoint = Callable[[str, Callable[[], Any]], Any]
"""Function that is called in place of an effect's action, with the effect's name and the action; it may call this."""

VARIABLE = "ARCTIC_FAILPOINTS"
"""Name of the environment variable with failpoints for `parse_failpoints`, which is read when a process starts."""


@dataclass(frozen=True)
class Effect:
    """An entry of the registry of effects: a description, and whether the effect's action may be performed twice.

    A `repeatable` action has the same result if it is performed twice, or fails the second time; while the catalog is
    locked, it is tried again. An action of the kind `once` writes rows to its own branch, or commits on top of a
    certain snapshot. If the catalog is locked, its write may have been accepted nevertheless; so it is not tried again,
    and a CommitConflict is raised.
    """

    kind: Kind
    does: str


EFFECTS: Mapping[str, Effect] = MappingProxyType(
    {
        # One attempt to commit to a table.
        "commit.branch": Effect("repeatable", "Creates an attempt's branch at the snapshot that the attempt observed."),
        "commit.append": Effect("once", "Appends change rows to the attempt's branch of the change table."),
        "commit.publish": Effect("repeatable", "Fast-forwards main of a table to the attempt's branch."),
        "commit.drop_branch": Effect("repeatable", "Drops the branch of an attempt that is published or given up."),
        "commit.drop_abandoned": Effect("repeatable", "Drops the branch that a process left behind long ago."),
        # The relations of a model.
        "changes.create": Effect("repeatable", "Creates the change table, without rows."),
        "base.create": Effect("repeatable", "Creates or replaces the base from the change table, in one commit."),
        "base.adopt.tag": Effect("repeatable", "Tags the snapshot with the rows of a table that is adopted."),
        "base.adopt.record": Effect("once", "Records, without rows, that an adopted table has no changes merged yet."),
        "base.adopt.partition": Effect(
            "repeatable", "Adds or drops a partition field of a table that is adopted or given back."
        ),
        "base.adopt.properties": Effect("repeatable", "Sets the properties by which an adopted table is a base."),
        "base.adopt.move": Effect("repeatable", "Notes a later snapshot with the rows that a change table continues."),
        "base.release.properties": Effect("repeatable", "Removes the properties by which an adopted table is a base."),
        "base.release.rollback": Effect("repeatable", "Sets an adopted table back to the rows before its adoption."),
        "base.release.schema": Effect("repeatable", "Drops a column or the sort order that an adopted table has got."),
        "base.release.tag": Effect("repeatable", "Drops the tag of the rows of a table that was adopted."),
        "base.write_order": Effect("repeatable", "Sets the order in which writers sort the base's files."),
        "base.overwrite": Effect("once", "Replaces all rows of a small base in one commit."),
        "base.merge.delete": Effect("once", "Deletes the old rows of changed keys on a branch of the base."),
        "base.merge.append": Effect("once", "Appends the new rows of changed keys to a branch of the base."),
        "base.rewrite.branch": Effect("repeatable", "Creates the branch of a base rewrite in parts."),
        "base.rewrite.write": Effect("once", "Replaces the rows of one part of a base by the merged ones."),
        "view.tag": Effect("repeatable", "Tags the base's snapshot that the view is about to pin."),
        "view.replace": Effect("repeatable", "Creates or replaces the view over base and change table."),
        "current_view.mark": Effect("repeatable", "Notes the name of the view of current versions."),
        "current_view.replace": Effect("repeatable", "Creates or replaces the view of a table's current versions."),
        "current_view.drop": Effect("repeatable", "Drops a view of current versions that a model no longer has."),
        "changes_view.mark": Effect("repeatable", "Notes the name of the view of change rows."),
        "changes_view.replace": Effect("repeatable", "Creates or replaces the view of a table's change rows."),
        "changes_view.drop": Effect("repeatable", "Drops a view of change rows that a model no longer has."),
        "schema.evolve": Effect("repeatable", "Renames, adds, widens or drops one column of a table."),
        "relation.drop": Effect("repeatable", "Drops a relation that is in the way, or that is about to be rebuilt."),
        "aggregate_state.write": Effect("repeatable", "Creates or replaces the table of the aggregate state."),
        "repair.mark": Effect("repeatable", "Notes up to where change rows may break promises before a repair."),
        "keep.mark": Effect("repeatable", "Notes that a commit may have several change rows of one key from now on."),
        "query.note": Effect("repeatable", "Notes the text of the query that a run has computed."),
        "reset.drop": Effect("repeatable", "Drops one relation of a model that is reset."),
        # Upkeep.
        "compaction.partition_spec": Effect("repeatable", "Changes the number of buckets of a table's partition spec."),
        "compaction.rewrite": Effect("once", "Rewrites data files on a branch."),
        "compaction.stamp": Effect("once", "Repeats on the branch which version the rewritten base is merged to."),
        "changelog_compaction.mark": Effect("repeatable", "Notes up to where change rows are about to be deleted."),
        "changelog_compaction.delete": Effect("once", "Deletes replaced change rows on a branch of the change table."),
        "expiry.metadata_files": Effect("repeatable", "Sets how many metadata files a table keeps."),
        "expiry.ages": Effect("repeatable", "Notes the commit times of snapshots that are about to expire."),
        "expiry.drop_tag": Effect("repeatable", "Drops a tag that keeps a snapshot which nobody needs."),
        "expiry.snapshots": Effect("repeatable", "Expires snapshots, and deletes the files that only they have."),
        "expiry.orphans": Effect("repeatable", "Deletes files that belong to no snapshot."),
        "landing.mark": Effect("repeatable", "Notes up to where rows of a landing table are about to be deleted."),
        "landing.delete": Effect("repeatable", "Deletes files of a landing table, whose rows were read by all."),
        "savepoint.tag": Effect("repeatable", "Tags one table of a savepoint."),
        "savepoint.drop_tag": Effect("repeatable", "Drops one tag of a savepoint."),
        "reader.note": Effect("repeatable", "Notes that a model of another project reads a table."),
        # Clones.
        "clone.tag": Effect("repeatable", "Tags a snapshot of the origin that a clone needs."),
        "clone.write": Effect("repeatable", "Writes the metadata file of a table of a clone."),
        "clone.register": Effect("repeatable", "Creates a table of a clone from its metadata file."),
        "clone.expire": Effect("repeatable", "Removes snapshots from the metadata of a table that shares its files."),
        "clone.remove_files": Effect("repeatable", "Deletes files in the own folder of a clone."),
        "clone.note_use": Effect("repeatable", "Notes that a clone is in use, although its run changed nothing."),
        "clone.drop_tag": Effect("repeatable", "Drops a tag of the origin of a clone that is gone."),
        # Builds that are published as a whole.
        "build.begin": Effect("once", "Creates the file of a branch, with the tables that the catalog has."),
        "build.remove": Effect("repeatable", "Removes the file of a branch."),
        "build.copy_metadata": Effect("repeatable", "Copies the metadata file of a table that a branch may change."),
        "build.write_metadata": Effect("repeatable", "Writes a metadata file in which a table has the tag of a build."),
        "build.remove_copies": Effect("repeatable", "Deletes copies of metadata files that no table has."),
        "build.tag": Effect("repeatable", "Tags the version of a table that a build has not changed."),
        "build.publish": Effect("repeatable", "Makes tables and views of a build visible in one transaction."),
        "build.drop": Effect(
            "repeatable", "Drops a table that a build has dropped, in a catalog without transactions."
        ),
        "build.write_record": Effect("repeatable", "Writes down what a publication in several steps changes."),
        "build.note_record": Effect("repeatable", "Notes in a namespace where the record of a publication is."),
        "build.remove_record": Effect("repeatable", "Removes the record of a publication that is complete."),
        # Rows are forgotten.
        "forget.keys": Effect("repeatable", "Creates or replaces the table of keys that are being forgotten."),
        "forget.mark": Effect("repeatable", "Notes up to where change rows are about to be forgotten."),
        "forget.delete": Effect("once", "Deletes the change rows of forgotten keys on a branch of the change table."),
        "forget.rewrite": Effect("once", "Rewrites, on a branch, the files that hold deleted rows."),
        "forget.record": Effect("once", "Repeats on the branch what the newest run recorded, or what the base holds."),
        "forget.manifests": Effect("repeatable", "Rewrites the manifests, which know bounds of rows that are gone."),
        "forget.dead_letters": Effect("once", "Replaces the dead letters by those of other keys, in one commit."),
        "forget.remove_files": Effect("repeatable", "Deletes files with forgotten rows that belong to no snapshot."),
        "forget.drop": Effect("repeatable", "Drops a table of keys or of an old aggregate state, with its files."),
        # Ingestion of change data.
        "ingest.create_dead_letters": Effect("repeatable", "Creates the table of a source's dead letters."),
        "ingest.append_dead_letters": Effect("once", "Appends events that can't be applied to the dead letter table."),
        "ingest.widen_dead_letters": Effect("repeatable", "Adds a column that the dead letter table was made without."),
        "ingest.rewrite_dead_letters": Effect("once", "Replaces the rows of the dead letter table, in one commit."),
        "ingest.create_stage": Effect("repeatable", "Creates the table that collects the rows of a snapshot."),
        "ingest.stage": Effect("once", "Appends rows of a snapshot to the table that collects them."),
        "ingest.drop_stage": Effect("repeatable", "Drops the table that collected the rows of a snapshot."),
        "ingest.create_table": Effect("repeatable", "Creates a table without a key, without rows."),
        "ingest.layout": Effect("repeatable", "Sets a partition field, the order or properties of such a table."),
        "ingest.append": Effect("once", "Appends rows of events to the attempt's branch of a table without a key."),
        "ingest.replace": Effect("once", "Replaces all rows on the attempt's branch of a table without a key."),
        "ingest.columns": Effect("repeatable", "Notes which columns of its source a table has."),
        "ingest.request": Effect("repeatable", "Notes that a table of a source is to be loaded anew."),
        "ingest.lease": Effect("once", "Takes, renews or ends the lease of a process on a source."),
        "ingest.create_file_log": Effect("repeatable", "Creates the table of the files that a source has read."),
        "ingest.append_file_log": Effect("once", "Notes the files of a batch before they are read."),
        "ingest.rewrite_file_log": Effect("once", "Rewrites the table of read files as one file."),
        "ingest.fail": Effect("repeatable", "Notes why ingestion of a source fails."),
        "ingest.advance": Effect("repeatable", "Notes up to where all tables of a source have its events."),
        # The service.
        "service.create_table": Effect("repeatable", "Creates the table that keeps the lease of a service."),
        "service.commit": Effect("once", "Takes, renews or ends its lease, or notes pauses, runs or samples."),
        "service.expire": Effect("repeatable", "Expires old snapshots, or deletes replaced files, of that table."),
        # What the adapter does for dbt.
        "incremental.mark_branch": Effect("repeatable", "Appends no rows to the branch of an increment."),
        "incremental.first_snapshot": Effect("repeatable", "Appends no rows, so that an empty table has a snapshot."),
        "namespace.create": Effect("repeatable", "Creates a namespace where there is none."),
        "namespace.drop": Effect("repeatable", "Drops an empty namespace."),
        "debug.create": Effect("repeatable", "Creates the table with which `dbt debug` tries whether it can write."),
        "debug.drop": Effect("repeatable", "Drops the table of `dbt debug`."),
        "probe.write": Effect("repeatable", "Writes a table or view by which a capability of the catalog is tried."),
        "probe.drop": Effect("repeatable", "Drops a table or view by which a capability was tried."),
        "debug.remove_folders": Effect("repeatable", "Removes the empty folders that the table of `dbt debug` leaves."),
    }
)


@dataclass(frozen=True)
class EngineFailure:
    """Classification of an error of Spark or pyiceberg: the kind of failure, and the error's message.

    `locked`: the catalog's database was locked. `conflict`: another writer committed first. `refused`: the user has no
    right to do it. `unwritable`: the warehouse can't be written.
    """

    kind: FailureKind
    message: str


@dataclass(frozen=True)
class Engine:
    """Classifies the errors of one library that performs effects, such as Spark or pyiceberg.

    `errors` are the types of the library's errors. `failure_of` classifies an error; it returns None for an error that
    is passed to the caller unchanged. `unlock` is advice to the user if the catalog stays locked.
    """

    errors: tuple[type[Exception], ...] = ()
    failure_of: Callable[[Exception], EngineFailure | None] = lambda _: None
    unlock: str = "see who holds catalog.db open (for instance with fuser), and let it finish or end it"
    thresholds: CommitThresholds = field(default_factory=CommitThresholds)


SILENT = Engine()
"""Engine that classifies no errors: all are passed to the caller unchanged."""


def perform_effect(name: str, action: Callable[[], T], description: str, engine: Engine = SILENT) -> T:
    """Performs the effect `name` by a call of `action`, and returns the result of the call.

    `description` describes the effect in error messages. Raises KeyError for a name that is not in `EFFECTS`. Raises
    CommitConflict if another writer committed first, or if the catalog was locked during an effect of the kind `once`.
    Raises CatalogError if the catalog stays locked, if the user lacks a right, or if the warehouse can't be written, as
    on a full disk.
    """
    kind = EFFECTS[name].kind
    guarded: Callable[[], T] = action if _failpoint is None else partial(_failpoint, name, action)
    with observe_effect(name), _explain_unwritable(description):
        match kind:
            case "repeatable":
                return wait_for_lock(guarded, description, engine)
            case "once":
                return _perform_once(guarded, description, engine)
            case _:
                assert_never(kind)


@contextmanager
def _explain_unwritable(description: str) -> Iterator[None]:
    """Converts errors of a system or store that say that nothing can be written; others pass unchanged."""
    try:
        yield
    except OSError as error:
        if (refusal := to_rights_error(str(error), description)) is not None:
            raise refusal from error
        if error.errno not in _UNWRITABLE:
            raise
        raise _explain_failure(EngineFailure("unwritable", str(error)), description) from error


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def wait_for_lock(action: Callable[[], T], description: str, engine: Engine) -> T:
    """Calls `action`, repeatedly while the catalog is locked, and returns its result.

    This is for reads and repeatable effects, because Iceberg does not wait for a locked SQLite database. Raises
    CatalogError if the catalog stays locked, and other errors as `perform_effect` does. `description` describes the
    action in error messages.
    """
    deadline = time.monotonic() + engine.thresholds.lock_wait_seconds
    while True:
        try:
            return action()
        except engine.errors as error:
            failure = engine.failure_of(error)
            if failure is None:
                raise
            if failure.kind != "locked":
                raise _explain_failure(failure, description) from error
            if time.monotonic() > deadline:
                raise CatalogError(
                    f"The catalog could not be used.\n  while: {description}",
                    actual=f"another process has kept it locked for {engine.thresholds.lock_wait_seconds:.0f} s",
                    fix=engine.unlock,
                ) from error
            time.sleep(engine.thresholds.lock_poll_seconds)


def _perform_once(action: Callable[[], T], description: str, engine: Engine) -> T:
    """Calls `action` once and returns its result; raises CommitConflict if the catalog is locked.

    The action must not be repeated, because the failed call may have written. The caller can start a new attempt, with
    a branch of its own.
    """
    try:
        return action()
    except engine.errors as error:
        failure = engine.failure_of(error)
        if failure is None:
            raise
        raise _explain_failure(failure, description) from error


def _explain_failure(failure: EngineFailure, description: str) -> CommitConflict | CatalogError:
    match failure.kind:
        case "locked":
            return CommitConflict(
                f"The catalog was locked by another process.\n  while: {description}",
                actual=failure.message,
                fix="run again",
            )
        case "conflict":
            return CommitConflict(f"Another writer committed first.\n  while: {description}", actual=failure.message)
        case "refused":
            refusal = to_rights_error(failure.message, description)
            assert refusal is not None
            return refusal
        case "unwritable":
            return CatalogError(
                f"The warehouse can't be written.\n  while: {description}",
                actual=failure.message,
                fix="check its permissions and the disk, then run again; nothing was published",
            )
        case _:
            assert_never(failure.kind)


def retry_on_conflict(action: Callable[[], T], attempts: int) -> T:
    """Returns the result of `action`; calls it again after a CommitConflict, at most `attempts` times in all.

    `action` must observe the tables again in each call. Raises the CommitConflict of the last call.
    """
    for _ in range(attempts - 1):
        with suppress(CommitConflict):
            return action()
    return action()


# Watching


Watcher = Callable[[str], AbstractContextManager[Any]]
"""Function that is called with the name of an effect or step, and returns a context manager for its execution."""


@contextmanager
def watch_effects(watcher: Watcher) -> Iterator[None]:
    """Lets `watcher` be called, until the block ends, for every effect and step in any thread of this process."""
    global _watcher
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before


def observe_effect(name: str) -> AbstractContextManager[Any]:
    """Returns the context manager in which the effect or step `name` must be performed.

    It is the one that the current watcher returns; without a watcher, one that does nothing.
    """
    return _UNWATCHED if _watcher is None else _watcher(name)


_UNWATCHED = nullcontext()
_watcher: Watcher | None = None


# Failpoints


@contextmanager
def set_failpoint(hook: Failpoint) -> Iterator[None]:
    """Lets `hook` be called, until the block ends, in place of the action of every effect in any thread."""
    global _failpoint
    before, _failpoint = _failpoint, hook
    try:
        yield
    finally:
        _failpoint = before


def parse_failpoints(text: str) -> Failpoint | None:
    """Parses failpoints, written as `NAME=MODE`, comma-separated: `commit.publish=kill,base.create=raise-after@2`.

    NAME is the name of an effect. With MODE `kill` the process kills itself in place of the effect, and with `raise` an
    error is raised; with `kill-after` and `raise-after` this happens after the effect. `@N` restricts the failpoint to
    the N-th time that the effect is performed. Returns None for an empty text; raises ConfigError for a text that can't
    be parsed.
    """
    points = [_parse_failpoint(part) for part in text.split(",") if part.strip()]
    return _Points(tuple(points)) if points else None


_MODES = ("kill", "kill-after", "raise", "raise-after")


@dataclass(frozen=True)
class _Point:
    name: str
    mode: str
    time: int | None


def _parse_failpoint(text: str) -> _Point:
    name, _, rest = text.strip().partition("=")
    mode, _, time_text = rest.partition("@")
    if name not in EFFECTS or mode not in _MODES or not (time_text or "1").isdecimal():
        raise ConfigError(
            f"{VARIABLE}: {text.strip()!r} is not a failpoint.",
            expected=(
                f"NAME=MODE or NAME=MODE@N, with a MODE of {', '.join(_MODES)}, and a NAME of {', '.join(EFFECTS)}"
            ),
        )
    return _Point(name, mode, int(time_text) if time_text else None)


class _Points:
    """Failpoint that kills the process or raises an error for the effects in `points`.

    It counts the performances of each effect, because a point may be restricted to one of them.
    """

    def __init__(self, points: tuple[_Point, ...]) -> None:
        self._points = points
        self._reached: dict[str, int] = {}
        self._counting = threading.Lock()

    def __call__(self, name: str, action: Callable[[], Any]) -> Any:
        with self._counting:
            count = self._reached[name] = self._reached.get(name, 0) + 1
        modes = {point.mode for point in self._points if point.name == name and point.time in (None, count)}
        if "kill" in modes:
            os.kill(os.getpid(), signal.SIGKILL)
        if "raise" in modes:
            raise CatalogError(f"The failpoint {name} raised instead of its effect.")
        done = action()
        if "kill-after" in modes:
            os.kill(os.getpid(), signal.SIGKILL)
        if "raise-after" in modes:
            raise CatalogError(f"The failpoint {name} raised after its effect.")
        return done


_failpoint: Failpoint | None = parse_failpoints(os.environ.get(VARIABLE, ""))
