"""Decides for each dead letter whether to apply it, by the commits and changes of its row since its batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from types import MappingProxyType
from typing import Literal

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from arctic_runtime.ingest.dead_letters.table import decode_version
from arctic_runtime.ingest.formats.event_format import EventFormat, SourceSchema
from arctic_runtime.ingest.transports.transport import ARRIVAL
from arctic_runtime.ingest.writing.decode_events import ABSENT, CHANGE, OLD_KEY, PART, can_be_absent
from arctic_runtime.ingest.writing.fold import read_arrival
from arctic_runtime.model.columns import BEFORE, OWN_PREFIX, SEQUENCE, find_column, is_same_name
from arctic_runtime.model.properties import POSITION, POSITION_EVENTS, REASON
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.version import Version
from arctic_runtime.spark.changes.equality import write_difference
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.bounds import lookup_keys
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    as_key,
    combine_all,
    name_key_column,
    read_own_changes,
    to_column,
)

CommitKind = Literal["events", "replay", "snapshot"]
"""Origin of the rows of a commit: events of a batch, dead letters, or a snapshot of the source."""

_KINDS: Mapping[str, CommitKind] = MappingProxyType(
    {"FIRST_RUN": "events", "CHANGES": "events", "REPLAYED": "replay", "RESYNCED": "snapshot"}
)
"""The kind of a commit by its reason.

Commits with other reasons, such as a restore, have no kind, since they can't be ordered among events.
"""


@dataclass(frozen=True)
class CommitWindow:
    """Sequence numbers that divide a table's commits into those before a dead letter's batch and those since."""

    after: int
    """Sequence number up to which commits were made before the batch; -1 if none is known to be."""

    end: int | None
    """Sequence number of the first later commit that completes a batch and has not expired; None if there is none."""

    is_own: bool
    """True if that commit completes the dead letter's own batch."""

    is_known: bool
    """False if the order is unknown.

    It is unknown if the table was created again since, or if the dead letter has no version.
    """


def find_commit_window(changes: ChangeTableState | None, since: str | None, position: str | None) -> CommitWindow:
    """Returns the CommitWindow of a dead letter's batch.

    `since` is the table's version before the batch (as by `encode_version`), and `position` the end of the batch in the
    source; both are columns of the dead letter table. `changes` is None if the table does not exist.
    """
    if changes is None:
        return CommitWindow(-1, None, is_own=False, is_known=True)
    table, after = (None, -1) if since is None else decode_version(since) or (changes.uuid, -1)
    if table != changes.uuid:
        return CommitWindow(-1, None, is_own=False, is_known=False)
    ends = (commit for commit in changes.commits if commit.version.sequence > after and _is_end_of_batch(commit))
    end = next(ends, None)
    if end is None:
        return CommitWindow(after, None, is_own=False, is_known=True)
    return CommitWindow(after, end.version.sequence, end.summary[POSITION] == position, is_known=True)


def list_commit_kinds(changes: ChangeTableState) -> dict[int, CommitKind]:
    """Maps the sequence number of each existing commit of a change table to its kind.

    Commits without a kind, such as a restore, are left out.
    """
    kinds = {commit.version.sequence: _find_commit_kind(commit) for commit in changes.commits}
    return {sequence: kind for sequence, kind in kinds.items() if kind is not None}


def _find_commit_kind(commit: Commit) -> CommitKind | None:
    return _KINDS.get(commit.summary.get(REASON, ""))


def _is_end_of_batch(commit: Commit) -> bool:
    return (
        _find_commit_kind(commit) == "events" and POSITION in commit.summary and POSITION_EVENTS not in commit.summary
    )


DEAD_LETTER, IS_OLD_KEY, OUTCOME = (f"{OWN_PREFIX}{own}" for own in ("letter", "gone", "outcome"))
"""Columns of pieces (see `split_key_changes`).

DEAD_LETTER is the row of the dead letter table as a struct, IS_OLD_KEY is whether the piece deletes the row under the
old primary key, and OUTCOME is one of the outcomes below.
"""

APPLY, APPLIED, SUPERSEDED, UNORDERED, PARTIAL, LACKING = (
    "apply",
    "applied",
    "superseded",
    "unordered",
    "partial",
    "lacking",
)
"""Outcomes of a piece.

APPLY: it is to be applied. APPLIED: a process that died has applied it already. SUPERSEDED: newer changes have replaced
all values of its row. The other outcomes mean that the piece can't be applied; `REASONS` has the reason of each.
"""

REASONS: Mapping[str, str] = MappingProxyType(
    {
        UNORDERED: "it can't be put in order with other changes of its row: resync the table",
        PARTIAL: "its row has changed since by an event without all values: resync the table",
        LACKING: "it lacks a value that no row of the table has: resync the table",
    }
)

PIECE = (ARRIVAL, PART, IS_OLD_KEY)
"""Columns that identify a piece; here ARRIVAL is the number of the dead letter, or negative if it has no number."""

_AFTER, _END, _IS_OWN, _IS_KNOWN = (f"{OWN_PREFIX}{own}" for own in ("after", "end", "is_own", "is_known"))
_COMMIT, _KIND, _SEQUENCE, _RELATION = (f"{OWN_PREFIX}{own}" for own in ("commit", "kind", "sequence", "relation"))
_WAS_APPLIED, _IS_REPLACED, _IS_UNORDERED, _IS_CHANGED, _HAS_NEWER = _FLAGS = [
    f"{OWN_PREFIX}{own}" for own in ("was_applied", "is_replaced", "is_unordered", "is_changed", "has_newer")
]
_SINCE, _POSITION = (f"{OWN_PREFIX}{own}" for own in ("since", "position"))
_WINDOW_TYPE = (
    f"{_SINCE} string, {_POSITION} string, {_AFTER} bigint, {_END} bigint, {_IS_OWN} boolean, {_IS_KNOWN} boolean"
)


def split_key_changes(sound: DataFrame) -> DataFrame:
    """Splits decoded events into pieces, each of which changes one primary key.

    An update of the primary key gives two pieces: the row under the new key, and a delete of the old key (IS_OLD_KEY).
    Any other event gives one. `sound` has only events that were decoded without an error.
    """
    whole = sound.withColumns({IS_OLD_KEY: F.lit(False), OLD_KEY: F.lit(None)})
    if not isinstance(old := sound.schema[OLD_KEY].dataType, StructType):
        return whole
    key = {field: F.col(OLD_KEY)[field] for field in old.fieldNames()}
    nothing = F.lit(None).cast(sound.schema[ABSENT].dataType)
    left = sound.where(F.col(OLD_KEY).isNotNull())
    removed = left.withColumns({**key, CHANGE: F.lit("delete"), ABSENT: nothing, IS_OLD_KEY: F.lit(True)})
    return whole.unionByName(removed.withColumn(OLD_KEY, F.lit(None)))


def classify_pieces(context: Context, pieces: DataFrame, schema: SourceSchema, form: EventFormat) -> DataFrame:
    """Adds the column OUTCOME to pieces (see `split_key_changes`), by later change rows of the same key in the table.

    `context` has the table's state.
    """
    is_lacking = (F.col(CHANGE) == "insert") & F.col(ABSENT).isNotNull()
    fresh = F.when(is_lacking, LACKING).otherwise(APPLY)
    changes = context.state.changes
    if changes is None or changes.newest is None:
        return pieces.withColumn(OUTCOME, fresh)
    placed = _join_windows(pieces, changes)
    values = [
        own.name for own in schema.columns if can_be_absent(own, form) and _is_compared(own.name, context, changes)
    ]
    about = _summarize_changes(context, placed, changes, values, has_order=bool(form.order))
    outcome = (
        F.when(F.col(_WAS_APPLIED), APPLIED)
        .when(F.col(_IS_REPLACED), SUPERSEDED)
        .when(~F.col(_IS_KNOWN) | F.col(_IS_UNORDERED), UNORDERED)
        .when(F.col(_IS_CHANGED) & F.col(_HAS_NEWER), SUPERSEDED)
        .when(F.col(_IS_CHANGED), PARTIAL)
        .otherwise(fresh)
    )
    both = placed.join(about, list(PIECE), "left").fillna(False, _FLAGS)
    return both.withColumn(OUTCOME, outcome).drop(*_FLAGS, _AFTER, _END, _IS_OWN, _IS_KNOWN)


def _is_compared(name: str, context: Context, changes: ChangeTableState) -> bool:
    is_key = any(is_same_name(name, part) for part in context.model.config.primary_key)
    return not is_key and find_column(changes.columns, name) is not None


def _join_windows(pieces: DataFrame, changes: ChangeTableState) -> DataFrame:
    """Adds the CommitWindow of each piece's dead letter, as columns _AFTER, _END, _IS_OWN and _IS_KNOWN.

    `pieces` is a result of `split_key_changes`, and `changes` the state of the change table.
    """
    since, position = F.col(DEAD_LETTER)["since"], F.col(DEAD_LETTER)["position"]
    seen = pieces.select(since, position).distinct().collect()
    rows = [
        (*row, window.after, window.end, window.is_own, window.is_known)
        for row in seen
        for window in [find_commit_window(changes, *row)]
    ]
    around = F.broadcast(pieces.sparkSession.createDataFrame(rows, _WINDOW_TYPE))
    is_same = since.eqNullSafe(F.col(_SINCE)) & position.eqNullSafe(F.col(_POSITION))
    return pieces.join(around, is_same).drop(_SINCE, _POSITION)


def _summarize_changes(
    context: Context, placed: DataFrame, changes: ChangeTableState, values: Iterable[str], has_order: bool
) -> DataFrame:
    """Compares each piece with the change rows of its key; returns one row per piece with the boolean columns `_FLAGS`.

    Only change rows that were committed with or after the dead letter's batch are read; pieces without such rows are
    left out. `values` are the names of columns whose value an event may lack.
    """
    names, key = list(values), context.model.config.primary_key
    first = min((row[0] for row in placed.select(F.min(_AFTER)).collect() if row[0] is not None), default=-1)
    rows = _read_change_rows(context, changes, first, placed.select(*[to_column(part) for part in key]))
    now = {f"now{i}": to_column(own_name) for i, own_name in enumerate(names)}
    was = {f"was{i}": F.col(BEFORE)[own_name] for i, own_name in enumerate(names)}
    own = {f"own{i}": to_column(own_name) for i, own_name in enumerate(names)}
    log = rows.select(
        *as_key(key),
        F.col(COMMIT_ORDER).alias(_COMMIT),
        F.col(SEQUENCE).alias(_SEQUENCE),
        *[value.alias(alias) for alias, value in (now | was).items()],
    )
    kinds = context.spark.createDataFrame(list(list_commit_kinds(changes).items()), f"{_COMMIT} bigint, {_KIND} string")
    known = log.join(F.broadcast(kinds), _COMMIT, "left")
    sought = placed.select(
        *PIECE,
        _AFTER,
        _END,
        _IS_OWN,
        F.col(DEAD_LETTER)["number"].alias("number"),
        F.col(DEAD_LETTER)["arrival"].alias("place"),
        F.col(ABSENT).alias("absent"),
        *[to_column(part).alias(f"sought{i}") for i, part in enumerate(key)],
        *[value.alias(alias) for alias, value in own.items()],
    )
    on_key = combine_all([sought[f"sought{i}"] == known[name_key_column(i)] for i in range(len(key))])
    related = sought.join(known, on_key & (F.col(_COMMIT) > F.col(_AFTER))).withColumn(
        _RELATION, _relate_change_row(has_order)
    )
    is_later = F.col(_RELATION) == "later"
    types = {own_name: stored.type for own_name in names if (stored := find_column(changes.columns, own_name))}
    is_newer = [_has_newer_value(i, own_name, types[own_name], is_later) for i, own_name in enumerate(names)]
    return related.groupBy(*PIECE).agg(
        F.bool_or(F.col(_RELATION) == "same").alias(_WAS_APPLIED),
        F.bool_or(is_later & (F.col(_SEQUENCE) >= 0)).alias(_IS_REPLACED),
        F.bool_or(F.col(_RELATION) == "unknown").alias(_IS_UNORDERED),
        F.bool_or(is_later).alias(_IS_CHANGED),
        reduce(and_, is_newer, F.lit(True)).alias(_HAS_NEWER),
    )


def _has_newer_value(index: int, own_name: str, kind: str, is_later: Expression) -> Expression:
    """Builds an aggregate condition: the value that the dead letter has for one column is not needed any more.

    The value is not needed if the dead letter lacks it, if a later change row changed the column, or if the newest
    later change row has the same value. Otherwise the value in the table may be older than that of the dead letter.
    `index` is the column's number in the aliases `own…`, `now…` and `was…`, `own_name` its name, `kind` its type.
    `is_later` is true for change rows newer than the dead letter.
    """
    own, now, was = (quote_name(f"{prefix}{index}") for prefix in ("own", "now", "was"))
    is_absent = F.bool_or(F.coalesce(F.array_contains("absent", own_name), F.lit(False)))
    was_sent = F.bool_or(is_later & F.expr(write_difference([(now, was, kind)])))
    is_own = ~F.expr(write_difference([(now, own, kind)]))
    is_same = F.coalesce(F.max_by(is_own, F.when(is_later, F.col(_COMMIT))), F.lit(False))
    return is_absent | was_sent | is_same


def _read_change_rows(context: Context, changes: ChangeTableState, after: int, keys: DataFrame) -> DataFrame:
    """Reads the change rows of the keys `keys` from commits after the sequence number `after`."""
    newest, table = changes.newest, context.model.table.changes
    assert newest is not None
    start = None if after < 0 else _find_version(changes, min(after, newest.sequence))
    rows = read_own_changes(context.spark, table, changes, start, newest)
    base = context.state.base
    only = lookup_keys(keys, keys.count(), base.rows if base else 0, context.thresholds.pruning)
    return only.select_rows(rows, context.model.config.primary_key)


def _find_version(changes: ChangeTableState, sequence: int) -> Version:
    """Returns the version of a change table with the sequence number `sequence`.

    Its snapshot id is -1 if that commit has expired.
    """
    versions = (commit.version for commit in changes.commits if commit.version.sequence == sequence)
    return next(versions, Version(changes.uuid, -1, sequence))


def _relate_change_row(has_order: bool) -> Expression:
    """Builds the expression that relates a change row to a dead letter: `older`, `later`, `same` or `unknown`.

    `same` means that the change row is the result of this dead letter. `has_order` says whether the format orders
    events. If it does not, the rows of a batch with dead letters have the ARRIVAL of their events. So a row of the dead
    letter's batch without one, or with that of the dead letter, is from a process that read the batch again after one
    had died, when the event could be applied.
    """
    commit, kind, end, is_own = (F.col(column) for column in (_COMMIT, _KIND, _END, _IS_OWN))
    arrival, number = read_arrival(F.col(_SEQUENCE)), F.col("number")
    among_dead = (
        F.when(arrival == number, "same")
        .when(F.lit(has_order), "unknown")
        .when(arrival > number, "later")
        .when(arrival < number, "older")
        .otherwise("unknown")
    )
    in_batch = (
        F.when(arrival > F.col("place"), "later")
        .when(arrival < F.col("place"), "older")
        .otherwise("unknown" if has_order else "same")
    )
    return (
        F.when(kind == "snapshot", "older")
        .when(kind == "replay", among_dead)
        .when((kind == "events") & ((commit > end) | ((commit == end) & ~is_own)), "later")
        .when((kind == "events") & is_own & (commit <= end), in_batch)
        .otherwise("unknown")
    )
