"""Tables that keep every version of a row: changes become the intervals in which each version was valid.

A version is a row of the table under the key of its entity and `_valid_from`, so change table, merges and readers treat
versions as any rows. Only versions of entities that changed are read.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import (
    ACTION,
    HISTORY_COLUMNS,
    IS_CURRENT,
    POSITION,
    RECORDED_FROM,
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
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.model.types import format_struct_type
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    type_name,
)
from arctic_runtime.spark.refresh.diff import (
    build_images,
    build_struct,
    diff_states,
    emit_image_changes,
    find_contract_violation,
    pair_images_by_key,
)
from arctic_runtime.spark.tables import marks
from arctic_runtime.spark.tables.frames import (
    as_key,
    cast_as,
    combine_all,
    combine_any,
    hide_constant,
    name_key_column,
    to_column,
)
from arctic_runtime.spark.tables.sameness import write_difference

_CLOSE, _OPEN, _KEEP, _GONE = "close", "open", "keep", "gone"
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Places:
    """The columns of a table with history by their place in its shape: those of rows, and those of intervals."""

    entity: tuple[int, ...]
    tracked: tuple[int, ...]
    untracked: tuple[int, ...]
    absent: tuple[int, ...]
    start: int
    end: int
    current: int

    @classmethod
    def of(cls, config: ModelConfig, shape: Shape) -> Places:
        """`absent` are columns that the query no longer has; a new version takes them over from the one before."""
        own = {kept.name.lower(): i for i, kept in enumerate(shape.columns)}
        rest = [i for of, i in own.items() if not is_named(of, (*config.entity_key, *HISTORY_COLUMNS))]
        given = [i for i in rest if is_named(shape.columns[i].name, shape.given)]
        tracked = [i for i in given if not config.track or is_named(shape.columns[i].name, config.track)]
        return cls(
            entity=tuple(own[part.lower()] for part in config.entity_key),
            tracked=tuple(tracked),
            untracked=tuple(i for i in given if i not in tracked),
            absent=tuple(i for i in rest if i not in given),
            start=own[VALID_FROM],
            end=own[VALID_TO],
            current=own[IS_CURRENT],
        )


def with_intervals(config: ModelConfig, stored: tuple[Column, ...], query: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns of the table: those of the query that it stores, and those of the interval if it has history.

    The interval of a query's row is in time. That of events is of the type of `valid_time`, or else of `sequence_by`.
    """
    if not config.has_history:
        return stored
    order = config.valid_time or config.sequence_by
    found = find_column(query, order) if order else None
    return (*stored, *build_history_columns(found.type if found else "timestamp", config.valid_time is not None))


def row_shape(config: ModelConfig, shape: Shape) -> Shape:
    """The shape of the rows of the query: without intervals, under the key of the entity."""
    columns = tuple(kept for kept in shape.columns if not is_named(kept.name, HISTORY_COLUMNS))
    return replace(shape, columns=columns, key=config.entity_key)


def current(rows: DataFrame) -> DataFrame:
    """The versions that are valid now."""
    return rows.where(to_column(IS_CURRENT))


# What holds of versions


def overlapping(rows: DataFrame, config: ModelConfig) -> DataFrame:
    """Versions that end before they begin or after the next one begins, or that are not current as they should be."""
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


def differing(rows: DataFrame, table: DataFrame | None, shape: Shape, config: ModelConfig) -> DataFrame:
    """What would have to change for the current versions of a table to be these rows."""
    plain = row_shape(config, shape)
    found = diff_states(rows, None if table is None else current(table), plain)
    return found.drop(TIMESTAMP, SEQUENCE).withColumnRenamed(ACTION, "missing_change")


# What a query says


def time_of_run(now: datetime.datetime, last: RunSummary | None) -> datetime.datetime:
    """The time of a run's changes: now, or just after the time of the last run if the clock was put back."""
    if last is None or last.high_watermark is None:
        return now
    return max(now, datetime.datetime.fromisoformat(last.high_watermark) + _MICROSECOND)


def query_versions(
    new: DataFrame, old: DataFrame | None, shape: Shape, config: ModelConfig, time: datetime.datetime, keyed: bool
) -> DataFrame:
    """Change rows that bring versions `old` to the rows `new` as of a time.

    `old` has all current versions of the entities of `new`, and of those that are gone. If `keep_deleted` is false, it
    has their closed versions as well.
    """
    entities = entity_shape(config, shape)
    moves = _moved(pair_images_by_key(new, None if old is None else current(old), entities, keyed), shape, config)
    if old is not None and not config.keep_deleted:
        moves = moves.unionByName(_closed_without_row(old, new, entities), allowMissingColumns=True)
    return _version_changes(moves, shape, config, time)


def followed_versions(
    rows: DataFrame, old: DataFrame, shape: Shape, config: ModelConfig, time: datetime.datetime
) -> DataFrame:
    """Change rows that bring versions to `rows`, images of the query's rows before and after a change.

    Of the stored versions `old` only the time from which the current ones are valid is read. Deleted rows are kept.
    """
    places = Places.of(config, shape)
    key = [shape.columns[i].name for i in places.entity]
    starts = current(old).select(*as_key(key), to_column(VALID_FROM).alias("start"))
    on_key = combine_all([F.col(f"a{i}") == F.col(name_key_column(place)) for place, i in enumerate(places.entity)])
    is_stored = {"has_before": Sql("has_before AND start IS NOT NULL"), f"b{places.start}": quote_name("start")}
    pairs = replaced(rows.join(starts, on_key, "left"), {**is_stored, f"b{places.current}": Sql("true")})
    return _version_changes(_moved(pairs, shape, config), shape, config, time)


def entity_shape(config: ModelConfig, shape: Shape) -> Shape:
    """The shape of the table's rows under the key of the entity, of which the query gives no intervals."""
    given = tuple(of for of in shape.given if not is_named(of, HISTORY_COLUMNS))
    return replace(shape, key=config.entity_key, given=given)


def _moved(pairs: DataFrame, shape: Shape, config: ModelConfig) -> DataFrame:
    """Images of the rows before and after, once for each version that ends, begins or goes on."""
    moves = _moves(shape, Places.of(config, shape), config)
    return pairs.withColumn("move", F.explode(F.expr(moves)))


def _version_changes(moves: DataFrame, shape: Shape, config: ModelConfig, time: datetime.datetime) -> DataFrame:
    """Change rows of versions that end, begin or go on at a time."""
    places = Places.of(config, shape)
    is_close, is_open = (
        fill_statement("move = {kind}", kind=quote_text(_CLOSE)),
        fill_statement("move = {kind}", kind=quote_text(_OPEN)),
    )
    micros = quote_number(round(time.timestamp() * 1_000_000))
    at = hide_constant(fill_statement("timestamp_micros({micros})", micros=micros), quote_name("move"))
    row = [*places.entity, *places.tracked, *places.untracked, *places.absent]
    images_after = {f"a{i}": either(is_close, quote_name(f"b{i}"), quote_name(f"a{i}")) for i in row}
    interval = {
        f"a{places.start}": either(is_open, at, quote_name(f"b{places.start}")),
        f"a{places.end}": either(is_close, at, Sql("NULL")),
        f"a{places.current}": fill_statement("NOT ({close})", close=is_close),
    }
    found = {
        "has_before": fill_statement("NOT ({opens})", opens=is_open),
        "has_after": fill_statement("move <> {gone}", gone=quote_text(_GONE)),
        "flaw": either(is_close, Sql("NULL"), quote_name("flaw")),
    }
    return emit_image_changes(replaced(moves, {**images_after, **interval, **found}), shape)


def _moves(shape: Shape, places: Places, config: ModelConfig) -> Sql:
    """What becomes of the versions of an entity whose row before and after are known."""
    return fill_statement(
        "CASE WHEN flaw IS NOT NULL OR NOT has_before THEN array({open}) WHEN NOT has_after THEN array({end}) "
        "WHEN {differs} THEN array({close}, {open}) ELSE array({keep}) END",
        differs=differ_in(shape, places.tracked, lambda i: quote_name(f"a{i}"), lambda i: quote_name(f"b{i}")),
        open=quote_text(_OPEN),
        close=quote_text(_CLOSE),
        keep=quote_text(_KEEP),
        end=quote_text(_CLOSE if config.keep_deleted else _GONE),
    )


def _closed_without_row(old: DataFrame, new: DataFrame, entities: Shape) -> DataFrame:
    """Closed versions of entities that have no row any more."""
    closed = old.where(~to_column(IS_CURRENT))
    keys = new.select(*[to_column(part).alias(f"__arctic_k{i}") for i, part in enumerate(entities.key)])
    found = [closed[quote_name(part)] == keys[f"__arctic_k{i}"] for i, part in enumerate(entities.key)]
    gone = closed.join(keys, found, "left_anti")
    seq = cast_as(Sql("NULL"), entities.sequence_type, "seq")
    return gone.selectExpr(*build_images("b", entities, gone.columns), seq, alias_as(quote_text(_GONE), "move"))


# What events say


def check_history_is_kept(model: Model, upstreams: Mapping[str, SourceState | None]) -> None:
    """Raises DataError where a full refresh would lose versions, because upstreams lost events."""
    sources = ", ".join(of for of, state in upstreams.items() if state and state.has_lost_rows)
    if sources:
        raise DataError(
            f"{model.table}: a full refresh would lose versions: it keeps those alone that follow from the events that "
            f"the upstreams still have; nothing was written.\n  found: {sources} no longer has all events\n"
            "  expected: upstreams that keep all their events\n"
            f"  what to do: run without --full-refresh, or delete the history with `arctic reset {model.table.name} "
            "--yes` and run again"
        )


def oldest_changed(config: ModelConfig, oldest: str | None, is_recomputed: bool) -> str | None:
    """The place from which on versions may change, if events begin at `oldest`; None if all may.

    A deletion may delete all versions, and so may what follows from all events of some keys (`is_recomputed`).
    """
    return None if not config.keep_deleted or config.valid_time or is_recomputed else oldest


def affected_versions(old: DataFrame | None, oldest: str | None, shape: Shape) -> DataFrame | None:
    """The versions that events may change, none of which is older than `oldest`; all if that is None."""
    if old is None or oldest is None:
        return old
    is_later = to_column(VALID_TO) >= marks.read_earliest(oldest, place_type(shape))
    return old.where(to_column(VALID_TO).isNull() | is_later)


def event_images(
    events: DataFrame, known: DataFrame | None, old: DataFrame | None, shape: Shape, model: Model
) -> DataFrame:
    """Images of the versions as they are with these events, beside the stored ones that begin in the same place.

    `known` are events of earlier runs that `earlier_events` gives. All versions of an entity that are valid at the
    oldest of its events or later are in `old`.
    """
    places = Places.of(model.config, shape)
    # Of events in one place in the order the newest wins. A version has what the event that opened it says, unless
    # later events updated it in place.
    of_known, of_old = (2, 1) if model.config.track else (1, 2)
    if model.config.valid_time:
        of_known, of_old = 3, 1  # Their sequence tells which of the events of one valid time counts.
    points = _event_points(events, shape, model, 3)
    if known is not None:
        points = points.unionByName(_event_points(known, shape, model, of_known, is_new=False))
    if old is not None:
        points = points.unionByName(_stored_points(old, shape, places, of_old))
    return _folded(points, shape, places, model.config)


def rows_of_events(events: DataFrame, shape: Shape, model: Model) -> DataFrame:
    """The table's rows that follow from all events, without columns that the query does not give."""
    places = Places.of(model.config, shape)
    folded = _folded(_event_points(events, shape, model, 3), shape, places, model.config).where("has_after")
    own = [of for of in shape.given if not is_named(of, (RECORDED_FROM, RECORDED_TO))]
    told = [(i, of) for i, of in enumerate(shape.columns) if is_named(of.name, own)]
    return folded.selectExpr(*[alias_as(quote_name(f"a{i}"), kept.name) for i, kept in told])


def _event_points(events: DataFrame, shape: Shape, model: Model, rank: int, is_new: bool = True) -> DataFrame:
    """Points in the order of events, each with the row as of it."""
    config = model.config
    assert config.sequence_by is not None
    is_delete = F.coalesce(F.expr(config.delete_when), F.lit(False)) if config.delete_when else F.lit(False)
    is_placed = POSITION in events.columns
    parts = [F.col(f"{POSITION}.{part}") if is_placed else F.lit(None).cast("bigint") for part in ("commit", "row")]
    points = events.select(
        *map(F.expr, build_images("a", shape, events.columns)),
        is_delete.alias("deleted"),
        to_column(config.valid_time or config.sequence_by).cast(place_type(shape)).alias("place"),
        F.lit(rank).alias("standing"),
        to_column(config.sequence_by).cast(shape.sequence_type).alias("sequence"),
        parts[0].alias("of_commit"),
        parts[1].alias("in_commit"),
        F.lit(is_new).alias("is_new"),
        F.lit(None).cast(_stored_type(shape)).alias("b"),
    )
    return points.withColumn("flaw", F.when(~F.col("deleted"), F.expr(find_contract_violation(shape))))


def _stored_points(old: DataFrame, shape: Shape, places: Places, rank: int) -> DataFrame:
    """Where versions begin, and where they end: unless a version or event is in that place, a row was deleted there."""
    stored = build_struct((quote_name(f"a{i}"), f"b{i}") for i in range(len(shape.columns)))
    ends = fill_statement(
        "posexplode(array({start}, {end})) AS (which, place)",
        start=quote_name(f"a{places.start}"),
        end=quote_name(f"a{places.end}"),
    )
    both = old.selectExpr(*build_images("a", shape, old.columns)).selectExpr("*", ends).where("place IS NOT NULL")
    return both.selectExpr(
        *[quote_name(f"a{i}") for i in range(len(shape.columns))],
        "which = 1 AS deleted",
        "place",
        fill_statement("CASE WHEN which = 1 THEN 0 ELSE {rank} END AS standing", rank=quote_number(rank)),
        cast_as(Sql("NULL"), shape.sequence_type, "sequence"),
        "CAST(NULL AS bigint) AS of_commit",
        "CAST(NULL AS bigint) AS in_commit",
        "false AS is_new",
        fill_statement("CASE WHEN which = 0 THEN {stored} END AS b", stored=stored),
        "CAST(NULL AS string) AS flaw",
    )


def _folded(points: DataFrame, shape: Shape, places: Places, config: ModelConfig) -> DataFrame:
    """A row for each place in the order: the version that begins there now, and the stored one that began there.

    One pass over the points of each entity in their order.
    """
    entity = join_parts([quote_name(f"a{i}") for i in places.entity])
    arrival = fill_statement(
        "PARTITION BY {entity} ORDER BY place, standing, sequence, of_commit, in_commit, is_new", entity=entity
    )
    order = fill_statement("PARTITION BY {entity} ORDER BY place", entity=entity)
    untracked = build_struct([(quote_name(f"a{i}"), f"u{i}") for i in places.untracked] or [(Sql("true"), "exists")])
    tracked = build_struct([(quote_name(f"a{i}"), f"t{i}") for i in places.tracked] or [(Sql("true"), "exists")])
    rows = points.selectExpr(
        "*",
        fill_statement("NOT (lead(place) OVER ({w}) <=> place) AS wins", w=arrival),
        fill_statement(
            "last(b) IGNORE NULLS OVER ({w} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS stored", w=arrival
        ),
    ).where("wins")
    taken_over = {
        f"a{i}": either(Sql("b IS NULL"), quote_name("stored", f"b{i}"), quote_name(f"a{i}")) for i in places.absent
    }
    rows = replaced(rows, taken_over).selectExpr(
        "*",
        fill_statement("coalesce(NOT lag(deleted) OVER ({w}), false) AS was_alive", w=order),
        fill_statement("lag({tracked}) OVER ({w}) AS was", tracked=tracked, w=order),
        fill_statement("lag({untracked}) OVER ({w}) AS until", untracked=untracked, w=order),
    )
    differs = differ_in(shape, places.tracked, lambda i: quote_name(f"a{i}"), lambda i: quote_name("was", f"t{i}"))
    differs = Sql("true") if config.valid_time else differs
    rows = rows.withColumn("opens", F.expr(fill_statement("NOT deleted AND (NOT was_alive OR {d})", d=differs)))
    edge = Sql("CASE WHEN opens OR (deleted AND was_alive) THEN struct(place, until) END")
    everything = Sql("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
    newest = fill_statement(
        "last({untracked}) OVER ({w} {all}) AS newest", untracked=untracked, w=order, all=everything
    )
    last = fill_statement("max(CASE WHEN deleted THEN place END) OVER ({w} {all})", w=order, all=everything)
    rows = rows.selectExpr(
        "*",
        fill_statement("lead({edge}) IGNORE NULLS OVER ({w}) AS following", edge=edge, w=order),
        *([newest] if places.untracked else []),
        *([] if config.keep_deleted else [alias_as(last, "last_delete")]),
    )
    return _versions(rows, shape, places, config)


def _versions(rows: DataFrame, shape: Shape, places: Places, config: ModelConfig) -> DataFrame:
    """After and before images of versions, of points that know their next edge and the stored version."""
    in_place = fill_statement("following IS NULL")
    kept = Sql("true") if config.keep_deleted else Sql("(last_delete IS NULL OR place > last_delete)")
    before = fill_statement(
        "(stored IS NOT NULL AND {start} <=> place)", start=quote_name("stored", f"b{places.start}")
    )
    values = {
        **{
            f"a{i}": either(in_place, quote_name("newest", f"u{i}"), quote_name("following", "until", f"u{i}"))
            for i in places.untracked
        },
        f"a{places.start}": quote_name("place"),
        f"a{places.end}": quote_name("following", "place"),
        f"a{places.current}": in_place,
        "has_after": fill_statement("(opens AND {kept}) OR flaw IS NOT NULL", kept=kept),
        "has_before": before,
        "ts": Sql("CAST(NULL AS timestamp)"),
        "seq": fill_statement("CAST(NULL AS {kind})", kind=type_name(shape.sequence_type)),
    }
    stored = {f"b{i}": either(before, quote_name("stored", f"b{i}"), Sql("NULL")) for i in range(len(shape.columns))}
    return replaced(rows, {**values, **stored})


def _stored_type(shape: Shape) -> str:
    return format_struct_type((f"b{i}", kept.type) for i, kept in enumerate(shape.columns))


def place_type(shape: Shape) -> str:
    """The type of the intervals in which versions are valid."""
    return next(kept.type for kept in shape.columns if is_named(kept.name, (VALID_FROM,)))


def differ_in(shape: Shape, among: Sequence[int], left: Callable[[int], Sql], right: Callable[[int], Sql]) -> Sql:
    """Whether two rows differ in any of these columns."""
    return fill_statement("({any})", any=write_difference((left(i), right(i), shape.columns[i].type) for i in among))


def either(condition: Sql, value: Sql, other: Sql) -> Sql:
    """One value if a condition holds, else the other."""
    return fill_statement(
        "CASE WHEN {condition} THEN {value} ELSE {other} END", condition=condition, value=value, other=other
    )


def replaced(rows: DataFrame, values: dict[str, Sql]) -> DataFrame:
    """The same rows with these columns in the place of their own, all computed from the rows as they were."""
    return rows.withColumns({own: F.expr(value) for own, value in values.items()})
