"""Computes the versions of rows in tables with history, from change events and from the stored versions around them.

A *place* is a value of the order in which versions follow each other: the `valid_time` of an event, or else its
`sequence_by` value. A *point* is a row of an internal query: it has the place at which a table row may change, with the
values of the row from there on, or with a flag that the row is deleted there.

A run must read events of earlier runs again if stored versions do not suffice to apply new events. A new event needs
earlier events if it is not later than all events that were read before:

- Its `sequence_by` value is lower: an earlier event, which changed nothing when it was read, may open a version that
  begins after the new event.
- Its `sequence_by` value is equal to the newest one: it replaces that event and undoes its effect. But values that were
  updated in place, and versions that were deleted, are no longer stored.
- Its `valid_time` is lower: an earlier delete, which had nothing to delete when it was read, ends the version that the
  new event opens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import OWN_PREFIX, POSITION, RECORDED_FROM, RECORDED_TO, VALID_TO
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape, is_named
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.spark.changes.diff import build_images, build_struct, find_contract_violation
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    replace_columns,
    select_from,
)
from arctic_runtime.spark.history.versions import (
    Positions,
    build_differ,
    choose_value,
    find_place_type,
)
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import Keys, as_key, cast_as, combine_all, match_key, query_rows, to_column
from arctic_runtime.sql.types import format_struct_type

_IS_DELETE, _IS_NEW = f"{OWN_PREFIX}is_delete", f"{OWN_PREFIX}is_new"
_PLACE = "__arctic_place"


def check_history_is_kept(model: Model, upstreams: Mapping[str, SourceState | None]) -> None:
    """Raises DataError if a full refresh would lose versions, since upstreams no longer have all their events."""
    sources = ", ".join(name for name, state in upstreams.items() if state and state.has_lost_rows)
    if sources:
        raise DataError(
            f"{model.table}: a full refresh would lose versions: it keeps only those that follow from the events "
            "that the upstreams still have; nothing was written.",
            expected="upstreams that keep all their events",
            actual=f"{sources} no longer has all events",
            fix=(
                f"run without --full-refresh, or delete the history with `arctic reset {model.table.name} --yes` and "
                "run again"
            ),
        )


def find_oldest_changed(config: ModelConfig, oldest: str | None, is_recomputed: bool) -> str | None:
    """Returns the value of `sequence_by` from which on a run may change versions; None if it may change all versions.

    `oldest` is the value of the first event. All versions may change if a delete removes all versions of its key (no
    `keep_deleted`), if the table is bitemporal, and if the versions of some keys are recomputed from all their events
    (`is_recomputed`).
    """
    return None if not config.keep_deleted or config.valid_time or is_recomputed else oldest


def select_affected_versions(old: DataFrame | None, oldest: str | None, shape: Shape) -> DataFrame | None:
    """Selects the stored versions in `old` that events may change, if the first event has the place `oldest`.

    These are the versions that do not end before this place, a value of `valid_time` or `sequence_by` as text. None for
    `oldest` selects all versions.
    """
    if old is None or oldest is None:
        return old
    is_later = to_column(VALID_TO) >= marks.read_earliest(oldest, find_place_type(shape))
    return old.where(to_column(VALID_TO).isNull() | is_later)


def build_event_images(
    events: DataFrame, known: DataFrame | None, old: DataFrame | None, shape: Shape, model: Model
) -> DataFrame:
    """Computes new versions from `events`, and pairs each with the stored version that begins at the same time.

    `known` are events of earlier runs on which the effect of `events` depends, or None. `old` has for each key the
    stored versions that are valid at the oldest event of the key or later. The result has the columns that
    `emit_image_changes` reads.
    """
    places = Positions.find(model.config, shape)
    # At one position, the highest rank wins: first the new events. A stored version has the values of the event that
    # opened it, unless later events updated some in place (`track`); then the event itself wins.
    of_known, of_old = (2, 1) if model.config.track else (1, 2)
    if model.config.valid_time:
        of_known, of_old = 3, 1  # Among events of one valid time, their sequence decides.
    points = _select_event_points(events, shape, model, 3)
    if known is not None:
        points = points.unionByName(_select_event_points(known, shape, model, of_known, is_new=False))
    if old is not None:
        stored = query_rows(old, lambda rows: select_stored_points(rows, old.columns, shape, places, of_old))
        points = points.unionByName(stored)
    return query_rows(points, lambda rows: fold_points(rows, shape, places, model.config))


def fold_to_versions(events: DataFrame, shape: Shape, model: Model) -> DataFrame:
    """Computes all versions of rows from all events of their keys.

    The result has those columns of the table that the query returns, and those of the versions' intervals, except the
    times of the recording in a bitemporal table.
    """
    places = Positions.find(model.config, shape)
    points = _select_event_points(events, shape, model, 3)
    folded = query_rows(points, lambda rows: fold_points(rows, shape, places, model.config)).where("has_after")
    own = [given for given in shape.given if not is_named(given, (RECORDED_FROM, RECORDED_TO))]
    columns = [(i, column.name) for i, column in enumerate(shape.columns) if is_named(column.name, own)]
    return folded.selectExpr(*[alias_as(quote_name(f"a{i}"), column_name) for i, column_name in columns])


def _select_event_points(events: DataFrame, shape: Shape, model: Model, rank: int, is_new: bool = True) -> DataFrame:
    predicate = model.config.delete_when
    is_delete = F.coalesce(F.expr(predicate), F.lit(False)) if predicate else F.lit(False)
    marked = events.withColumns({_IS_DELETE: is_delete, _IS_NEW: F.lit(is_new)})
    return query_rows(marked, lambda rows: select_event_points(rows, events.columns, shape, model.config, rank))


def select_event_points(events: Sql, columns: Sequence[str], shape: Shape, config: ModelConfig, rank: int) -> Sql:
    """Builds the query that converts each event to a point: the place at which a row changes, and the row from there.

    The place is the value of `valid_time` or `sequence_by`. `events` is a query with `columns`, `__arctic_is_delete`
    and `__arctic_is_new`. If points of one key have the same place, only that with the highest `rank` is used later.
    """
    assert config.sequence_by is not None
    commit, row = [quote_name(POSITION, part) if POSITION in columns else Sql("NULL") for part in ("commit", "row")]
    points = select_from(
        events,
        [
            *build_images("a", shape, columns),
            alias_as(quote_name(_IS_DELETE), "deleted"),
            cast_as(quote_name(config.valid_time or config.sequence_by), find_place_type(shape), "place"),
            fill_statement("{rank} AS standing", rank=quote_number(rank)),
            cast_as(quote_name(config.sequence_by), shape.sequence_type, "sequence"),
            cast_as(commit, "bigint", "of_commit"),
            cast_as(row, "bigint", "in_commit"),
            alias_as(quote_name(_IS_NEW), "is_new"),
            cast_as(Sql("NULL"), _build_stored_type(shape), "b"),
        ],
    )
    flaw = fill_statement("CASE WHEN NOT deleted THEN {flaw} END AS flaw", flaw=find_contract_violation(shape))
    return select_from(points, [Sql("*"), flaw])


def select_stored_points(old: Sql, columns: Sequence[str], shape: Shape, positions: Positions, rank: int) -> Sql:
    """Builds the query for points, two for each stored version in `old`: the begin and the end of the version.

    A point has a place, the value of `valid_time` or `sequence_by` at which a row changes. The end of a version counts
    as a deletion of the row, unless another point of the key has the same place. `columns` are those of `old`.
    """
    edges = fill_statement(
        "explode(array(struct(false AS is_end, {start} AS place), struct(true AS is_end, {end} AS place))) AS edge",
        start=quote_name(f"a{positions.start}"),
        end=quote_name(f"a{positions.end}"),
    )
    stored = build_struct((quote_name(f"a{i}"), f"b{i}") for i in range(len(shape.columns)))
    return select_from(
        select_from(select_from(old, build_images("a", shape, columns)), [Sql("*"), edges]),
        [
            *[quote_name(f"a{i}") for i in range(len(shape.columns))],
            Sql("edge.is_end AS deleted"),
            Sql("edge.place AS place"),
            fill_statement("CASE WHEN edge.is_end THEN 0 ELSE {rank} END AS standing", rank=quote_number(rank)),
            cast_as(Sql("NULL"), shape.sequence_type, "sequence"),
            *[cast_as(Sql("NULL"), "bigint", own) for own in ("of_commit", "in_commit")],
            Sql("false AS is_new"),
            fill_statement("CASE WHEN NOT edge.is_end THEN {stored} END AS b", stored=stored),
            cast_as(Sql("NULL"), "string", "flaw"),
        ],
        where=Sql("edge.place IS NOT NULL"),
    )


def fold_points(points: Sql, shape: Shape, positions: Positions, config: ModelConfig) -> Sql:
    """Builds the query that turns points, at which rows change, into versions, in one pass over the points of each key.

    It returns one row per key and place: the new version that begins there (a0…), and the stored version that began
    there (b0…).
    """
    known = _find_edges(_find_neighbours(_select_winners(points, positions), positions), shape, positions, config)
    return _build_versions(known, shape, positions, config)


def _select_winners(points: Sql, positions: Positions) -> Sql:
    """Builds the query that keeps, among points of a key with the same place, the one with the highest rank.

    It adds the stored version that is valid at this place.
    """
    arrival = fill_statement(
        "PARTITION BY {entity} ORDER BY place, standing, sequence, of_commit, in_commit, is_new",
        entity=_list_entity(positions),
    )
    until_now = "last_value(b) IGNORE NULLS OVER ({w} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS stored"
    ranked = [
        fill_statement("NOT (lead(place) OVER ({w}) <=> place) AS wins", w=arrival),
        fill_statement(until_now, w=arrival),
    ]
    winners = select_from(select_from(points, [Sql("*"), *ranked]), [Sql("*")], where=Sql("wins"))
    taken_over = {
        f"a{i}": choose_value(Sql("b IS NULL"), quote_name("stored", f"b{i}"), quote_name(f"a{i}"))
        for i in positions.absent
    }
    return replace_columns(winners, taken_over)


def _find_neighbours(points: Sql, positions: Positions) -> Sql:
    """Builds the query that adds to each point whether the row existed just before (`was_alive`), and its old values.

    A point is a value of `valid_time` or `sequence_by` at which a row changes.
    """
    order = _order_by_place(positions)
    neighbours = [
        fill_statement("coalesce(NOT lag(deleted) OVER ({w}), false) AS was_alive", w=order),
        fill_statement("lag({tracked}) OVER ({w}) AS was", tracked=_pack_tracked(positions), w=order),
        fill_statement("lag({untracked}) OVER ({w}) AS until", untracked=_pack_untracked(positions), w=order),
    ]
    return select_from(points, [Sql("*"), *neighbours])


def _find_edges(points: Sql, shape: Shape, positions: Positions, config: ModelConfig) -> Sql:
    """Builds the query that adds to each point whether a version begins there, and the place at which it ends.

    A version ends at the place at which the next one begins, or at which the row is deleted.
    """
    differs = build_differ(
        shape, positions.tracked, lambda i: quote_name(f"a{i}"), lambda i: quote_name("was", f"t{i}")
    )
    differs = Sql("true") if config.valid_time else differs
    opened = select_from(
        points, [Sql("*"), fill_statement("NOT deleted AND (NOT was_alive OR {differs}) AS opens", differs=differs)]
    )
    edge = fill_statement(
        "CASE WHEN opens OR (deleted AND was_alive) THEN {edge} END",
        edge=build_struct([(quote_name(field), field) for field in ("place", "until")]),
    )
    parts = {"w": _order_by_place(positions), "untracked": _pack_untracked(positions), "edge": edge}
    parts["all"] = Sql("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
    newest = fill_statement("last_value({untracked}) OVER ({w} {all}) AS newest", **parts)
    last = fill_statement("max(CASE WHEN deleted THEN place END) OVER ({w} {all}) AS last_delete", **parts)
    return select_from(
        opened,
        [
            Sql("*"),
            fill_statement("lead({edge}) IGNORE NULLS OVER ({w}) AS following", **parts),
            *([newest] if positions.untracked else []),
            *([] if config.keep_deleted else [last]),
        ],
    )


def _build_versions(points: Sql, shape: Shape, positions: Positions, config: ModelConfig) -> Sql:
    """Builds the query for new versions (a0…) and stored versions (b0…) from `points`, which `_find_edges` returned."""
    in_place = Sql("(following IS NULL)")
    is_kept = Sql("true") if config.keep_deleted else Sql("(last_delete IS NULL OR place > last_delete)")
    before = fill_statement(
        "(stored IS NOT NULL AND {start} <=> place)", start=quote_name("stored", f"b{positions.start}")
    )
    values = {
        **{
            f"a{i}": choose_value(in_place, quote_name("newest", f"u{i}"), quote_name("following", "until", f"u{i}"))
            for i in positions.untracked
        },
        f"a{positions.start}": quote_name("place"),
        f"a{positions.end}": quote_name("following", "place"),
        f"a{positions.current}": in_place,
    }
    stored = {
        f"b{i}": choose_value(before, quote_name("stored", f"b{i}"), Sql("NULL")) for i in range(len(shape.columns))
    }
    flags = [
        fill_statement("((opens AND {is_kept}) OR flaw IS NOT NULL) AS has_after", is_kept=is_kept),
        alias_as(before, "has_before"),
        *[cast_as(Sql("NULL"), kind, own) for own, kind in (("ts", "timestamp"), ("seq", shape.sequence_type))],
    ]
    versions = select_from(points, [Sql("*"), *flags, *(alias_as(value, own) for own, value in stored.items())])
    return replace_columns(versions, values)


def _list_entity(positions: Positions) -> Sql:
    return join_parts(quote_name(f"a{i}") for i in positions.entity)


def _order_by_place(positions: Positions) -> Sql:
    return fill_statement("PARTITION BY {entity} ORDER BY place", entity=_list_entity(positions))


def _pack_tracked(positions: Positions) -> Sql:
    return build_struct([(quote_name(f"a{i}"), f"t{i}") for i in positions.tracked] or [(Sql("true"), "exists")])


def _pack_untracked(positions: Positions) -> Sql:
    return build_struct([(quote_name(f"a{i}"), f"u{i}") for i in positions.untracked] or [(Sql("true"), "exists")])


def _build_stored_type(shape: Shape) -> str:
    return format_struct_type((f"b{i}", column.type) for i, column in enumerate(shape.columns))


def needs_all_events(config: ModelConfig) -> bool:
    """Whether a version may depend on all events of its key.

    This is so if columns are updated in place (`track`), or if a delete removes versions (no `keep_deleted`).
    """
    return bool(config.track) or not config.keep_deleted


def needs_earlier_events(model: Model, shape: Shape, last: RunSummary | None) -> Expression:
    """Builds the condition that an event can be applied only together with events of its key that earlier runs read.

    It is false if there was no `last` run.
    """
    if last is None or last.high_watermark is None:
        return F.lit(False)
    sequence, mark = _sequence(model), marks.read_latest(last.high_watermark, shape.sequence_type)
    needs_earlier = sequence <= mark if needs_all_events(model.config) else sequence < mark
    return needs_earlier | _is_late_in_time(model, shape, last)


def _is_late_in_time(model: Model, shape: Shape, last: RunSummary) -> Expression:
    """Builds the condition that an event's valid time is before the newest one that earlier runs have read.

    It is true if the newest one is not known, and false for tables without `valid_time` or `delete_when`.
    """
    config = model.config
    if config.valid_time is None or config.delete_when is None:
        return F.lit(False)
    if last.newest_valid_time is None:
        return F.lit(True)
    return to_column(config.valid_time) < marks.read_latest(last.newest_valid_time, find_place_type(shape))


def count_needing_earlier(model: Model, shape: Shape, last: RunSummary | None) -> list[Expression]:
    """Builds aggregates over a run's events: about events that need earlier ones, and about valid times.

    Their names are those of the last fields of `Profile`. The list is empty for tables without history.
    """
    config = model.config
    if not config.has_history:
        return []
    needs_earlier, sequence = needs_earlier_events(model, shape, last), _sequence(model).cast(shape.sequence_type)
    oldest = F.min(F.when(needs_earlier, sequence))
    aggregates = [
        F.count_if(needs_earlier).alias("needing_earlier"),
        marks.write_sequence_text(oldest, shape.sequence_type).alias("oldest_needing_earlier"),
    ]
    if config.valid_time is None:
        return aggregates
    kind = find_place_type(shape)
    time = to_column(config.valid_time).cast(kind)
    return [
        *aggregates,
        marks.write_sequence_text(F.min(F.when(needs_earlier, time)), kind).alias("oldest_time_needing_earlier"),
        marks.write_sequence_text(_compute_newest(F.max(time), last, kind), kind).alias("newest_valid_time"),
    ]


def _compute_newest(newest: Expression, last: RunSummary | None, kind: str) -> Expression:
    """Builds the newest valid time of all runs, from that of this run (`newest`) and the summary of the `last` run.

    It is null if the summary does not have it, since an earlier run did not record it; then it is null until a full
    refresh.
    """
    if last is None:
        return newest
    if last.newest_valid_time is None:
        return F.lit(None).cast(kind)
    return F.greatest(newest, marks.read_latest(last.newest_valid_time, kind))


def select_placed(model: Model, earlier: DataFrame) -> DataFrame:
    """Selects the events in `earlier` without a null in `sequence_by` or `valid_time`, whose order is known."""
    places = [name for name in (model.config.sequence_by, model.config.valid_time) if name is not None]
    return earlier.where(combine_all([to_column(place).isNotNull() for place in places]))


def select_keys_needing_earlier(model: Model, events: DataFrame, shape: Shape, last: RunSummary) -> DataFrame:
    """Returns the distinct keys of `events` that can be applied only together with events of earlier runs."""
    key = [to_column(part) for part in model.config.entity_key]
    return events.where(needs_earlier_events(model, shape, last)).select(*key).distinct()


def select_overtaken_keys(
    model: Model, events: DataFrame, earlier: DataFrame, keys: Keys, oldest: Expression
) -> DataFrame:
    """Returns the distinct keys of `events` that are not later than all `earlier` events of their key.

    `oldest` is the lowest `sequence_by` value of events that need earlier ones; `earlier` is read only from there on,
    so that files with older events are skipped.
    """
    key = model.config.entity_key
    later = earlier.where(_sequence(model) >= oldest)
    newest = keys.select_rows(later, key).groupBy(*as_key(key)).agg(F.max(_sequence(model)).alias(_PLACE))
    matched = events.join(newest, match_key(events, key)).where(_sequence(model) <= F.col(_PLACE))
    return matched.select(*[to_column(part) for part in key]).distinct()


def select_later(
    model: Model, earlier: DataFrame, keys: Keys, oldest: Expression, oldest_time: Expression | None
) -> DataFrame:
    """Selects the `earlier` events of `keys` with a higher `sequence_by` value than `oldest`.

    Also selects those with a later valid time than `oldest_time`, unless that is None.
    """
    is_later = _sequence(model) > oldest
    if oldest_time is not None and model.config.delete_when is not None:
        assert model.config.valid_time is not None
        is_later |= to_column(model.config.valid_time) > oldest_time
    return keys.select_rows(earlier, model.config.entity_key).where(is_later)


def _sequence(model: Model) -> Expression:
    assert model.config.sequence_by is not None
    return to_column(model.config.sequence_by)
