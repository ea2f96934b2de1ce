"""Tables with history: each change of a row ends one version, at the time of the run, and begins another.

A version is a row of the table, whose key is the key of its entity and `_valid_from`; so the change table, merges and
readers treat it as any row. The entity is the row that the query returns, with the key `primary_key`. Runs read only
the versions of entities that changed.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from arctic_runtime.model.columns import (
    ACTION,
    HISTORY_COLUMNS,
    IS_CURRENT,
    RECORDED_TO,
    SEQUENCE,
    TIMESTAMP,
    VALID_FROM,
    VALID_TO,
    Column,
    build_history_columns,
    find_column,
)
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape, is_named
from arctic_runtime.model.table import ModelConfig
from arctic_runtime.spark.changes.diff import build_images, diff_states, emit_image_changes, pair_images_by_key
from arctic_runtime.spark.changes.equality import write_difference
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, quote_name, quote_number, quote_text
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    cast_as,
    combine_all,
    combine_any,
    hide_constant,
    name_key_column,
    to_column,
)

_CLOSE, _OPEN, _KEEP, _GONE = "close", "open", "keep", "gone"
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Positions:
    """The positions of a history table's columns in its shape, by role."""

    entity: tuple[int, ...]
    """Key columns of the query's rows."""

    tracked: tuple[int, ...]
    """Columns whose change begins a new version."""

    untracked: tuple[int, ...]
    """Columns whose change updates the current version."""

    absent: tuple[int, ...]
    """Columns that the query no longer has; a new version copies them."""

    start: int
    """Column with the start of the version's interval."""

    end: int
    """Column with the end of the version's interval."""

    current: int
    """Column that says whether the version is the current one."""

    @classmethod
    def find(cls, config: ModelConfig, shape: Shape) -> Positions:
        """Returns the positions of the columns in `shape`, by the roles that the configuration gives them."""
        own = {column.name.lower(): i for i, column in enumerate(shape.columns)}
        rest = [i for name, i in own.items() if not is_named(name, (*config.entity_key, *HISTORY_COLUMNS))]
        in_query = [i for i in rest if is_named(shape.columns[i].name, shape.given)]
        tracked = [i for i in in_query if not config.track or is_named(shape.columns[i].name, config.track)]
        return cls(
            entity=tuple(own[part.lower()] for part in config.entity_key),
            tracked=tuple(tracked),
            untracked=tuple(i for i in in_query if i not in tracked),
            absent=tuple(i for i in rest if i not in in_query),
            start=own[VALID_FROM],
            end=own[VALID_TO],
            current=own[IS_CURRENT],
        )


def add_intervals(config: ModelConfig, stored: tuple[Column, ...], query: tuple[Column, ...]) -> tuple[Column, ...]:
    """Returns the columns of the table: `stored`, and if it has history, also those of the versions' intervals.

    The interval columns have the type timestamp if the query returns rows; if it returns change events, they have the
    type of `valid_time`, or else that of `sequence_by`.
    """
    if not config.has_history:
        return stored
    order = config.valid_time or config.sequence_by
    ordering = find_column(query, order) if order else None
    return (*stored, *build_history_columns(ordering.type if ordering else "timestamp", config.valid_time is not None))


def to_row_shape(config: ModelConfig, shape: Shape) -> Shape:
    """Returns the shape of the query's rows: without the interval columns, and with only `primary_key` as the key."""
    columns = tuple(column for column in shape.columns if not is_named(column.name, HISTORY_COLUMNS))
    return replace(shape, columns=columns, key=config.entity_key)


def select_current(rows: DataFrame) -> DataFrame:
    """Selects the versions that are valid now."""
    return rows.where(to_column(IS_CURRENT))


def find_overlaps(rows: DataFrame, config: ModelConfig) -> DataFrame:
    """Selects invalid versions: they end before they begin, overlap the next one, or have a wrong `_is_current`.

    A version without an end must be the last of its entity, and the only one flagged as current.
    """
    rows = rows.where(to_column(RECORDED_TO).isNull()) if config.valid_time else rows
    later = Over.partitionBy(*map(to_column, config.entity_key)).orderBy(to_column(VALID_FROM))
    following = F.lead(to_column(VALID_FROM)).over(later)
    start, end = to_column(VALID_FROM), to_column(VALID_TO)
    broken = combine_any(
        [
            end <= start,
            following < end,
            end.isNull() & following.isNotNull(),
            ~to_column(IS_CURRENT).eqNullSafe(end.isNull()),
        ]
    )
    return rows.withColumn("__arctic_broken", broken).where("__arctic_broken").drop("__arctic_broken")


def find_differences(rows: DataFrame, table: DataFrame | None, shape: Shape, config: ModelConfig) -> DataFrame:
    """Computes the change rows that would turn the current versions in `table` into `rows`, the rows of the query.

    The column `missing_change` has the action, such as `insert`.
    """
    plain = to_row_shape(config, shape)
    changes = diff_states(rows, None if table is None else select_current(table), plain)
    return changes.drop(TIMESTAMP, SEQUENCE).withColumnRenamed(ACTION, "missing_change")


def find_run_time(now: datetime.datetime, last: RunSummary | None) -> datetime.datetime:
    """Returns the time of a run's changes: `now`, or just after the last run's time if the clock was put back."""
    if last is None or last.high_watermark is None:
        return now
    return max(now, datetime.datetime.fromisoformat(last.high_watermark) + _MICROSECOND)


def build_query_moves(
    new: DataFrame, old: DataFrame | None, shape: Shape, config: ModelConfig, keyed: bool
) -> DataFrame:
    """Computes how the stored versions `old` have to change so that the current ones equal the query's rows `new`.

    The result is the input of `build_version_changes`. Each of its rows concerns one version, and its column `move`
    says whether the version is closed, opened, kept or deleted. `keyed` promises that all keys of `new` differ, and
    saves the check. `old` needs the current versions of all entities that are in `new` or deleted, and if
    `keep_deleted` is off, their closed versions as well.
    """
    entities = to_entity_shape(config, shape)
    moves = _explode_moves(
        pair_images_by_key(new, None if old is None else select_current(old), entities, keyed), shape, config
    )
    if old is not None and not config.keep_deleted:
        moves = moves.unionByName(_select_closed_without_row(old, new, entities), allowMissingColumns=True)
    return moves


def follow_versions(
    rows: DataFrame, old: DataFrame, shape: Shape, config: ModelConfig, time: datetime.datetime
) -> DataFrame:
    """Computes the change rows of versions from changed rows of the query, without a comparison with stored values.

    `rows` has the new row (a0…) and the old row (b0…) of each change. Of the stored versions `old`, only the start of
    each current version is read. Versions of deleted rows are kept.
    """
    places = Positions.find(config, shape)
    key = [shape.columns[i].name for i in places.entity]
    starts = select_current(old).select(*as_key(key), to_column(VALID_FROM).alias("start"))
    on_key = combine_all([F.col(f"a{i}") == F.col(name_key_column(place)) for place, i in enumerate(places.entity)])
    is_stored = {"has_before": Sql("has_before AND start IS NOT NULL"), f"b{places.start}": quote_name("start")}
    pairs = set_columns(rows.join(starts, on_key, "left"), {**is_stored, f"b{places.current}": Sql("true")})
    return build_version_changes(_explode_moves(pairs, shape, config), shape, config, time)


def to_entity_shape(config: ModelConfig, shape: Shape) -> Shape:
    """Returns the table's shape with only `primary_key` as the key; the key of a version also has `_valid_from`.

    Interval columns do not count as columns of the query (`given`).
    """
    given = tuple(name for name in shape.given if not is_named(name, HISTORY_COLUMNS))
    return replace(shape, key=config.entity_key, given=given)


def _explode_moves(pairs: DataFrame, shape: Shape, config: ModelConfig) -> DataFrame:
    """Repeats each pair of a new and an old row for each version that must change, and adds the kind of change, `move`.

    A `move` closes, opens, keeps or deletes a version.
    """
    moves = _choose_moves(shape, Positions.find(config, shape), config)
    return pairs.withColumn("move", F.explode(F.expr(moves)))


def build_version_changes(moves: DataFrame, shape: Shape, config: ModelConfig, time: datetime.datetime) -> DataFrame:
    """Builds the change rows of versions from `moves`, the result of `build_query_moves`.

    `time` is the end of closed and the start of opened versions.
    """
    places = Positions.find(config, shape)
    is_close, is_open = (
        fill_statement("move = {kind}", kind=quote_text(_CLOSE)),
        fill_statement("move = {kind}", kind=quote_text(_OPEN)),
    )
    micros = quote_number(round(time.timestamp() * 1_000_000))
    at = hide_constant(fill_statement("timestamp_micros({micros})", micros=micros), quote_name("move"))
    row = [*places.entity, *places.tracked, *places.untracked, *places.absent]
    images_after = {f"a{i}": choose_value(is_close, quote_name(f"b{i}"), quote_name(f"a{i}")) for i in row}
    interval = {
        f"a{places.start}": choose_value(is_open, at, quote_name(f"b{places.start}")),
        f"a{places.end}": choose_value(is_close, at, Sql("NULL")),
        f"a{places.current}": fill_statement("NOT ({close})", close=is_close),
    }
    flags = {
        "has_before": fill_statement("NOT ({opens})", opens=is_open),
        "has_after": fill_statement("move <> {gone}", gone=quote_text(_GONE)),
        "flaw": choose_value(is_close, Sql("NULL"), quote_name("flaw")),
    }
    return emit_image_changes(set_columns(moves, {**images_after, **interval, **flags}), shape)


def _choose_moves(shape: Shape, places: Positions, config: ModelConfig) -> Sql:
    """Builds the SQL array of moves (close, open, keep, delete) for a row's versions, from its new and old values."""
    return fill_statement(
        "CASE WHEN flaw IS NOT NULL OR NOT has_before THEN array({open}) WHEN NOT has_after THEN array({end}) "
        "WHEN {differs} THEN array({close}, {open}) ELSE array({keep}) END",
        differs=build_differ(shape, places.tracked, lambda i: quote_name(f"a{i}"), lambda i: quote_name(f"b{i}")),
        open=quote_text(_OPEN),
        close=quote_text(_CLOSE),
        keep=quote_text(_KEEP),
        end=quote_text(_CLOSE if config.keep_deleted else _GONE),
    )


def _select_closed_without_row(old: DataFrame, new: DataFrame, entities: Shape) -> DataFrame:
    """Selects the closed versions in `old` of rows that are not in `new`, with the move that deletes these versions."""
    closed = old.where(~to_column(IS_CURRENT))
    keys = new.select(*[to_column(part).alias(f"__arctic_k{i}") for i, part in enumerate(entities.key)])
    on_key = [closed[quote_name(part)] == keys[f"__arctic_k{i}"] for i, part in enumerate(entities.key)]
    deleted = closed.join(keys, on_key, "left_anti")
    seq = cast_as(Sql("NULL"), entities.sequence_type, "seq")
    return deleted.selectExpr(*build_images("b", entities, deleted.columns), seq, alias_as(quote_text(_GONE), "move"))


def find_place_type(shape: Shape) -> str:
    """Returns the SQL type of the values at which versions begin and end, which is that of `_valid_from`."""
    return next(column.type for column in shape.columns if is_named(column.name, (VALID_FROM,)))


def build_differ(shape: Shape, among: Sequence[int], left: Callable[[int], Sql], right: Callable[[int], Sql]) -> Sql:
    """Builds the condition that two rows differ in any column at the positions `among`.

    `left` and `right` return the value of the column at a position in either row.
    """
    return fill_statement("({any})", any=write_difference((left(i), right(i), shape.columns[i].type) for i in among))


def choose_value(condition: Sql, value: Sql, other: Sql) -> Sql:
    """Builds an expression with the value `value` if `condition` is true, else `other`."""
    return fill_statement(
        "CASE WHEN {condition} THEN {value} ELSE {other} END", condition=condition, value=value, other=other
    )


def set_columns(rows: DataFrame, values: dict[str, Sql]) -> DataFrame:
    """Returns `rows` with the columns in `values` added or replaced; all are computed from the original columns."""
    return rows.withColumns({own: F.expr(value) for own, value in values.items()})
