"""A source at the ends of its window, and the rows that came and went between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, MULTIPLICITY, Image, Scan, before
from arctic_runtime.model.bounds import condition
from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, Column, plain_columns, same_name
from arctic_runtime.model.names import image_view
from arctic_runtime.model.shape import DELETE
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.increment import has_before_images, is_appended
from arctic_runtime.spark.engine.statement import Sql, expression, listed, name, number, statement, text, type_name
from arctic_runtime.spark.refresh.diff import struct
from arctic_runtime.spark.tables.bounds import bounds
from arctic_runtime.spark.tables.frames import (
    COMMIT_ORDER,
    Hold,
    Unmerged,
    appended,
    as_key,
    column,
    conformed,
    match,
    newest_changes,
    overlay,
    read_table,
    read_until,
)
from arctic_runtime.spark.tables.sameness import compare_bags, differ
from arctic_runtime.thresholds import PruningThresholds, Thresholds

_THERE = "__arctic_there"


def register(
    spark: SparkSession,
    scans: Sequence[Scan],
    source: SourceState,
    window: Window,
    thresholds: Thresholds,
    asked: Collection[str] = (),
    hold: Hold | None = None,
) -> None:
    """Makes the temporary views that `scans`, all of one source, read.

    Changed rows are said to be where they are in the columns `asked` of the tree; finding out takes a job. If they are
    many and read several times, they are computed once, by `hold`.
    """
    fields = dict.fromkeys(field for scan in scans for _, field in scan.fields)
    for image, times in Counter(scan.image for scan in scans).items():
        rows = image_rows(spark, source, window, image, tuple(fields), thresholds.pruning)
        if image in ("delta", "pair"):
            located = _asked([scan for scan in scans if scan.image == image], asked)
            is_read_again = times + bool(located) > 1
            if hold and is_read_again and source.rows_in(window) > thresholds.incremental.cached_change_rows:
                rows = hold(rows)
            rows = _located(rows, source, window, located, thresholds.pruning)
        rows.createOrReplaceTempView(name(image_view(image, source.name)))


def _asked(scans: Iterable[Scan], asked: Collection[str]) -> tuple[str, ...]:
    """The columns of an image, also of what rows were before, that the tree's columns `asked` are."""
    now = [field for scan in scans for made, field in scan.fields if made in asked]
    was = [before(field) for scan in scans for made, field in scan.fields if before(made) in asked]
    return tuple(dict.fromkeys([*now, *was]))


def _located(
    rows: DataFrame, source: SourceState, window: Window, names: Sequence[str], thresholds: PruningThresholds
) -> DataFrame:
    """The same rows under a condition that is true for all of them, of the columns `names`."""
    if not names:
        return rows
    found = bounds(rows.select(*[column(part) for part in names]), source.rows_in(window), thresholds)
    return rows.where(expression(condition(found))) if found else rows


def image_rows(
    spark: SparkSession,
    source: SourceState,
    window: Window,
    image: Image,
    fields: Sequence[str],
    thresholds: PruningThresholds,
) -> DataFrame:
    """One image of a source, narrowed to the columns `fields`; `delta` also has their multiplicity.

    `pair`, which there is of windows that tell old rows, has what the columns were, and which of both there is.
    """
    kept = _narrowed(source, fields)
    if image == "new":
        return conformed(rows_at(spark, source, window.end, thresholds), kept)
    assert window.start is not None
    if image == "old":
        return conformed(rows_at(spark, source, window.start, thresholds), kept)
    if image == "pair":
        return _pairs(spark, source, window, kept)
    moved = _moved(spark, source, window, kept, thresholds)
    if image == "delta":
        return moved
    gone = moved.where(F.col(MULTIPLICITY) < 0).drop(MULTIPLICITY)
    return conformed(rows_at(spark, source, window.end, thresholds), kept).unionAll(gone)


def rows_at(
    spark: SparkSession,
    source: SourceState,
    version: Version,
    thresholds: PruningThresholds,
    found: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> DataFrame:
    """A source's rows as of a version: of the newest base that is not merged further, and the changes since.

    Where no such base is kept, all changes up to that version are folded. `found` picks rows, and among their columns
    at least the key, out of some that have the source's; where it picks few, that is all that changes are laid over.
    """
    if source.kind != "changes":
        return found(read_table(spark, source.name, version.snapshot, source.formerly))
    assert source.key is not None
    columns = plain_columns(source.columns)
    merged = source.base_before(version)
    if merged is None or source.base is None:
        log = read_until(spark, source, version)
        newest = newest_changes(log, source.key, 2).where(F.col(ACTION) != DELETE)
        return found(conformed(newest, columns))
    snapshot, at = merged
    base = found(conformed(read_table(spark, source.base, snapshot, source.formerly), columns))
    span = Window(str(source.name), at, version)
    pending = source.commits_in(span)
    if not pending:
        return base
    unmerged = Unmerged(appended(spark, source, span), pending, source.are_few_in(span, thresholds.broadcast_keys))
    return found(overlay(base, unmerged, source.key, columns))


def _moved(
    spark: SparkSession,
    source: SourceState,
    window: Window,
    kept: tuple[Column, ...],
    thresholds: PruningThresholds,
) -> DataFrame:
    """The rows that came (1) and went (-1), in the columns `kept`; rows that are equal in these are left out."""
    if source.kind == "changes":
        return _moved_in_log(spark, source, window, kept, thresholds)
    if is_appended(source, window):
        return _weighed(conformed(appended(spark, source, window), kept), 1)
    assert window.start is not None
    old, new = (conformed(rows_at(spark, source, at, thresholds), kept) for at in (window.start, window.end))
    return compare_bags(new, old, MULTIPLICITY)


def _moved_in_log(
    spark: SparkSession,
    source: SourceState,
    window: Window,
    kept: tuple[Column, ...],
    thresholds: PruningThresholds,
) -> DataFrame:
    assert source.key is not None
    if not has_before_images(source, window):
        newest = newest_changes(appended(spark, source, window), source.key, source.commits_in(window))
        return _looked_up(spark, source, window, newest, kept, thresholds)
    found = _net_changes(spark, source, window, kept)
    names = [part.name for part in kept]
    images = [
        struct(
            [*zip(values, names, strict=True), (number(weight), MULTIPLICITY), (_both(is_kept, found.moves), _THERE)]
        )
        for values, weight, is_kept in ((found.old, -1, found.was), (found.new, 1, found.stays))
    ]
    return _inlined(found.rows, images)


def _pairs(spark: SparkSession, source: SourceState, window: Window, kept: tuple[Column, ...]) -> DataFrame:
    """A row for each key that changed in the columns `kept`; where there is one commit, no row moves for that."""
    found = _net_changes(spark, source, window, kept)
    new = zip(found.new, [part.name for part in kept], strict=True)
    old = zip(found.old, [before(part.name) for part in kept], strict=True)
    flags = ((found.stays, HAS_AFTER), (found.was, HAS_BEFORE))
    is_any = statement("({was} OR {stays})", was=found.was, stays=found.stays)
    # Made as an array, since of a condition on all columns at once Spark concludes others in any combination of their
    # names: with a dozen columns it would never end.
    return _inlined(found.rows, [struct([*new, *old, *flags, (_both(is_any, found.moves), _THERE)])])


def _both(one: Sql, other: Sql) -> Sql:
    return statement("{one} AND {other}", one=one, other=other)


def _inlined(rows: DataFrame, images: Sequence[Sql]) -> DataFrame:
    """Of each row those images that say that they are there."""
    made = rows.selectExpr(statement("inline(array({images}))", images=listed(images)))
    return made.where(F.col(_THERE)).drop(_THERE)


@dataclass(frozen=True)
class _Net:
    """Net changes, one row per key, and what they say: some columns as they were and are, which of both there is.

    `moves` is false where there are both and they are alike.
    """

    rows: DataFrame
    old: list[Sql]
    new: list[Sql]
    was: Sql
    stays: Sql
    moves: Sql


def _net_changes(spark: SparkSession, source: SourceState, window: Window, kept: tuple[Column, ...]) -> _Net:
    rows = _net(spark, source, window, kept)
    spelled = {found.lower(): name(found) for found in rows.columns}
    old = [_cast(_before_image(source, part), part) for part in kept]
    new = [_cast(spelled[part.name.lower()], part) for part in kept]
    was = statement("{before} IS NOT NULL", before=name(BEFORE))
    stays = statement("{action} != {delete}", action=name(ACTION), delete=text(DELETE))
    unlike = differ((b, a, part.type) for a, b, part in zip(new, old, kept, strict=True))
    either = "(NOT ({was}) OR NOT ({stays}) OR {unlike})"
    return _Net(rows, old, new, was, stays, statement(either, was=was, stays=stays, unlike=unlike))


def _cast(value: Sql, to: Column) -> Sql:
    return statement("CAST({value} AS {kind})", value=value, kind=type_name(to.type))


def _net(spark: SparkSession, source: SourceState, window: Window, kept: tuple[Column, ...]) -> DataFrame:
    """One row per key: over several commits the newest image and action, and what the key was before them all.

    It has the key, `kept` and those of the log that tell what happened, at least.
    """
    assert source.key is not None
    changes = appended(spark, source, window)
    if source.commits_in(window) <= 1:
        return changes
    order = F.struct(F.col(COMMIT_ORDER), F.col(SEQUENCE))
    key = [column(part) for part in source.key]
    rest = [part.name for part in kept if not _in(part.name, source.key)]
    was = F.expr(struct([(name(BEFORE, part), part) for part in rest] or [(Sql("true"), "is_there")]))
    spelled = {found.lower(): name(found) for found in changes.columns}
    newest = F.max_by(F.expr(struct([(name(ACTION), ACTION), *[(spelled[of.lower()], of) for of in rest]])), order)
    oldest = F.min_by(F.struct(F.when(F.col(BEFORE).isNotNull(), was).alias(BEFORE)), order)
    grouped = changes.groupBy(*key).agg(newest.alias("newest"), oldest.alias("oldest"))
    return grouped.select(*key, "newest.*", "oldest.*")


def _looked_up(
    spark: SparkSession,
    source: SourceState,
    window: Window,
    newest: DataFrame,
    kept: tuple[Column, ...],
    thresholds: PruningThresholds,
) -> DataFrame:
    """Where the log does not tell what rows were before, they are looked up as of the window's start."""
    assert source.key is not None
    assert window.start is not None
    keys = newest.select(*as_key(source.key))
    old = rows_at(spark, source, window.start, thresholds)
    gone = old.join(keys.hint("shuffle_hash"), match(old, source.key), "left_semi")
    came = newest.where(F.col(ACTION) != DELETE)
    return _weighed(conformed(came, kept), 1).unionAll(_weighed(conformed(gone, kept), -1))


def _before_image(source: SourceState, part: Column) -> Sql:
    assert source.key is not None
    return name(part.name) if _in(part.name, source.key) else name(BEFORE, part.name)


def _in(wanted: str, names: Sequence[str]) -> bool:
    return any(same_name(wanted, other) for other in names)


def _narrowed(source: SourceState, fields: Sequence[str]) -> tuple[Column, ...]:
    return tuple(kept for kept in source.columns if _in(kept.name, fields))


def _weighed(rows: DataFrame, weight: int) -> DataFrame:
    return rows.withColumn(MULTIPLICITY, F.lit(weight))
