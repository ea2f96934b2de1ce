"""Deletes dead letters, which are events that could not be applied, if they contain keys of forgotten rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_progress, observe_snapshots
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.model.files.expiry import ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.plan.forgetting import split_outdated_snapshots
from arctic_runtime.spark.tables.commit import replace_rows
from arctic_runtime.spark.tables.rows.frames import combine_all, name_key_column, read_table
from arctic_runtime.spark.tables.snapshots import expire_snapshots
from arctic_runtime.spark.tables.table_session import TableSession


@dataclass(frozen=True)
class ErasedDeadLetters:
    """Number of deleted dead letters, and descriptions for people of data that may be left."""

    dropped: int = 0
    left: tuple[str, ...] = ()


def count_dead_letters(session: TableSession, keys: DataFrame | None) -> int:
    """Counts the dead letters of an ingested table that contain one of `keys` in their payload; 0 if `keys` is None."""
    table = _find_dead_letter_table(session)
    return (
        0
        if table is None or keys is None
        else _select_by_keys(session, _read_dead_letters(session, table), keys).count()
    )


def drop_dead_letters(session: TableSession, keys: DataFrame | None) -> ErasedDeadLetters:
    """Deletes the dead letters of an ingested table that contain one of `keys` in their payload.

    Also expires all older snapshots of the dead letter table, which all tables of a source share. Does nothing if
    `keys` is None.
    """
    return retry_on_conflict(partial(_drop_once, session, keys), session.reader.thresholds.commits.attempts)


def _drop_once(session: TableSession, keys: DataFrame | None) -> ErasedDeadLetters:
    table = _find_dead_letter_table(session)
    if table is None or keys is None:
        return ErasedDeadLetters()
    before = observe_snapshots(session.reader, table)
    if before is None or not before.lineage:
        return ErasedDeadLetters()
    rows = _read_dead_letters(session, table)
    matches = _select_by_keys(session, rows, keys)
    dropped = matches.count()
    if dropped:
        remaining = rows.join(matches.select("__arctic_row"), "__arctic_row", "left_anti").drop("__arctic_row")
        replace_rows("forget.dead_letters", remaining, table, before.lineage[-1].id, f"rewrite {table}")
    now = observe_snapshots(session.reader, table)
    assert now is not None
    gone, protected = split_outdated_snapshots(now, now.lineage[-1].sequence)
    if gone:
        expire_snapshots(ExpireSnapshots(table, gone), session.spark())
    unread = _count_unreadable(session, table)
    left = [f"{unread} dead letter(s) of {table} are not JSON, so they were not searched"] if unread else []
    left += [f"snapshot {snapshot} of {table} is kept by a tag or a branch" for snapshot in protected]
    return ErasedDeadLetters(dropped, tuple(left))


def _find_dead_letter_table(session: TableSession) -> TableName | None:
    source = session.model.source
    if source is None or observe_progress(session.reader, source.dead_letters) is None:
        return None
    return source.dead_letters


def _read_dead_letters(session: TableSession, table: TableName) -> DataFrame:
    """Reads the rows of a dead letter table, with the row id of each in the column `__arctic_row`."""
    snapshots = observe_snapshots(session.reader, table)
    assert snapshots is not None
    return read_table(session.spark(), table, snapshots.lineage[-1].id).select(
        "*", F.col("_row_id").alias("__arctic_row")
    )


def _select_own(session: TableSession, rows: DataFrame) -> DataFrame:
    return rows.where(F.col("table") == F.lit(session.model.ingested_from))


def _select_by_keys(session: TableSession, rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Selects the dead letters of the session's table whose JSON payload contains one of `keys`.

    The payload contains a key if it has, for each key column, a field with the column's name and the key's value.
    """
    payload = F.col("payload").cast("string")
    values = [F.col(name_key_column(place)).cast("string") for place in range(len(session.model.config.entity_key))]
    parts = [
        _build_field_condition(payload, part, value)
        for part, value in zip(session.model.config.entity_key, values, strict=True)
    ]
    return _select_own(session, rows).join(keys.hint("broadcast"), combine_all(parts), "left_semi")


def _build_field_condition(payload: Expression, part: str, value: Expression) -> Expression:
    """Builds the condition that the JSON text `payload` has a field `part` with `value`, as a text or a number."""
    quoted = F.concat(F.lit("\\Q"), value, F.lit("\\E"))
    plain = F.lit('(?i)"' + _escape_pattern(part) + '"\\s*:\\s*"?')
    return F.rlike(payload, F.concat(plain, quoted, F.lit('["\\s,}\\]]')))


def _escape_pattern(part: str) -> str:
    return "".join(sign if sign.isalnum() else f"\\{sign}" for sign in part)


def _count_unreadable(session: TableSession, table: TableName) -> int:
    """Counts the table's dead letters whose payload is not JSON, so that they can't be searched."""
    payload = F.col("payload").cast("string")
    is_json: Sequence[Expression] = [F.startswith(F.ltrim(payload), F.lit(sign)) for sign in ("{", "[")]
    return (
        _select_own(session, _read_dead_letters(session, table))
        .where(~F.coalesce(reduce(or_, is_json), F.lit(False)))
        .count()
    )
