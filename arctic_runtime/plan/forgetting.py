"""Plans `arctic forget`, the deletion of rows from all tables and their history, for privacy requests.

Orders the tables that have to forget rows, from a root table downstream, and selects the snapshots to remove.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timezone
from graphlib import CycleError, TopologicalSorter

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.clone import Clone
from arctic_runtime.model.files.expiry import Snapshots
from arctic_runtime.model.forgetting import CloneToForget
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import REASON
from arctic_runtime.model.run_summary import find_last_load
from arctic_runtime.model.state import TableState
from arctic_runtime.plan.cloning.clone_plan import explain_drop

FORGOTTEN_REASON = "FORGOTTEN"

Reads = Mapping[TableName, Collection[TableName]]
"""Maps each model's table to the tables that the model reads."""


def list_downstream_tables(root: TableName, reads: Reads) -> tuple[TableName, ...]:
    """Lists `root` and all models that read it, directly or through other models, each after the models that it reads.

    Raises ConfigError if models read each other in a circle.
    """
    sorter = TopologicalSorter(
        {table: sorted(set(upstream_tables) - {table}) for table, upstream_tables in sorted(reads.items())}
    )
    try:
        order = tuple(sorter.static_order())
    except CycleError as error:
        circle = " → ".join(map(str, error.args[1]))
        raise ConfigError(f"models read each other in a circle, so rows can't be followed: {circle}") from error
    tables = {root}
    for table in order:
        if tables & set(reads.get(table, ())):
            tables.add(table)
    return (root, *(table for table in order if table in tables and table != root))


def split_outdated_snapshots(table: Snapshots, cut: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Splits the snapshots with a sequence number below `cut` into removable ones and those that a tag or branch keeps.

    Those of other branches than main count as older whatever their number is: an attempt that began before the cut and
    committed to its branch after it has the old files. Returns the ids of the removable snapshots, and those of the
    kept ones.
    """
    protected = table.held | {*table.view_tags.values(), *table.cut_tags.values()}
    older = [snapshot.id for snapshot in table.lineage if snapshot.sequence < cut]
    older += [snapshot.id for snapshot in table.others]
    return tuple(snapshot for snapshot in older if snapshot not in protected), tuple(
        snapshot for snapshot in older if snapshot in protected
    )


def find_needed_sequence(table: Snapshots, state: TableState) -> int:
    """Lowest sequence number of the snapshots of `table`, one of a model's tables, that the model itself needs.

    Consumers of the model don't count. The first needed snapshot of a change table is that of the newest run that
    loaded data, or the version up to which the base is merged if that is older, from which a view that is made now
    reads. Of a base table, it is the newest snapshot with a merged version, or the one that the view reads if
    that is older. Of a table of aggregate state, it is that of the newest run; of any other table, it is the newest.
    """
    newest = table.lineage[-1].sequence if table.lineage else 0
    pinned = {state.view.base_snapshot} if state.view else set()
    last = find_last_load(state.changes)
    start = state.base.merged if state.base is not None else None
    runs = {known.snapshot if known else None for known in (last.version if last else None, start)}
    wanted = {*runs, state.aggregate_state, *pinned}
    merged = [snapshot.sequence for snapshot in table.lineage if snapshot.merged is not None]
    return min([newest, *merged[-1:], *(snapshot.sequence for snapshot in table.lineage if snapshot.id in wanted)])


def find_forgotten_sequence(table: Snapshots, state: TableState) -> int:
    """Sequence number from which on no snapshot of `table` contains rows that the newest `arctic forget` deleted.

    In the change table it is that of the deletion's commit; in the base table it is that of the first snapshot into
    which this commit is merged. The result is at most that of `find_needed_sequence`.
    """
    commits = state.changes.commits if state.changes else ()
    marks = [snapshot.version for snapshot in commits if snapshot.summary.get(REASON) == FORGOTTEN_REASON]
    own = [snapshot.sequence for snapshot in table.lineage if marks and snapshot.id == marks[-1].snapshot]
    merged = [
        snapshot.sequence
        for snapshot in table.lineage
        if marks and snapshot.merged and snapshot.merged.sequence >= marks[-1].sequence
    ]
    return min([find_needed_sequence(table, state), *own, *merged])


def plan_clones(
    holding: Iterable[Clone], now_ms: int, ttl_seconds: float | None, drops_all: bool
) -> tuple[CloneToForget, ...]:
    """Plans what is done with the clones that hold rows to forget, at the time `now_ms`.

    Those that nobody has used for `ttl_seconds` are dropped, as upkeep of their origins drops them; if `drops_all`, the
    others too.
    """
    return tuple(_plan_clone(clone, now_ms, ttl_seconds, drops_all) for clone in holding)


def _plan_clone(clone: Clone, now_ms: int, ttl_seconds: float | None, drops_all: bool) -> CloneToForget:
    made_ms, used_ms = clone.origin.at_ms, clone.used_ms
    used_at = _format_time(used_ms) if used_ms > made_ms else None
    names = (clone.table, clone.origin.model, _format_time(made_ms), used_at)
    if (unused := explain_drop(clone, now_ms, ttl_seconds)) is not None:
        return CloneToForget(*names, "drop", unused)
    if drops_all:
        return CloneToForget(*names, "drop", "--drop-clones")
    until = "" if ttl_seconds is None else f" until {_format_time(used_ms + round(1000 * ttl_seconds))}"
    reason = f"it may be in use{until}, and rows can't be erased in a clone; it goes with --drop-clones"
    return CloneToForget(*names, "none", reason)


def _format_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(timespec="seconds")
