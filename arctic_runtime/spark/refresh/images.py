"""Reads the rows of a source at the start and at the end of a window, and the changes between them.

The names of these images are `old` and `new` for the rows at both ends, `delta` for added and removed rows with their
multiplicity, `pair` for the old and the new row of each changed key, and `either` for new and removed rows together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, MULTIPLICITY, Image, Scan, name_before
from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, Column, is_same_name, strip_change_columns
from arctic_runtime.model.files.bounds import build_bounds_condition
from arctic_runtime.model.names import TableName, format_image_view
from arctic_runtime.model.shape import DELETE
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.window_rows import has_before_images, is_appended
from arctic_runtime.spark.changes.diff import build_struct
from arctic_runtime.spark.changes.equality import compare_bags, write_difference
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    type_name,
    write_expression,
)
from arctic_runtime.spark.tables.rows.bounds import collect_all_bounds
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    Hold,
    Unmerged,
    as_key,
    conform_frame,
    match_key,
    overlay_changes,
    read_appended_rows,
    read_table,
    read_until,
    select_newest_changes,
    to_column,
)
from arctic_runtime.thresholds import PruningThresholds, Thresholds

_THERE = "__arctic_there"


@dataclass(frozen=True)
class ImageView:
    """Rows of the temporary view `name`, and the columns `located` by whose bounds Spark can prune joined tables.

    `count` is the approximate number of rows.
    """

    name: str
    rows: DataFrame
    located: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class SourceWindow:
    """Reads the rows of one source at the start and the end of its window, and the changes between them."""

    spark: SparkSession
    source: SourceState
    window: Window
    thresholds: Thresholds

    def read_views(
        self, scans: Sequence[Scan], asked: Collection[str] = (), hold: Hold | None = None
    ) -> Iterator[ImageView]:
        """Reads the rows of the views that `scans` read, which are all scans of this source in operator trees.

        Changed rows have to be pruned by their values in the columns `asked`. `hold` caches changed rows that are many
        and read several times; None caches none.
        """
        fields = dict.fromkeys(field for scan in scans for _, field in scan.fields)
        changes = self.source.count_rows_in(self.window)
        is_large = changes > self.thresholds.incremental.cached_change_rows
        for image, times in Counter(scan.image for scan in scans).items():
            rows = self.read_image(image, tuple(fields))
            located: tuple[str, ...] = ()
            if image in ("delta", "pair"):
                located = _list_image_columns([scan for scan in scans if scan.image == image], asked)
                is_read_again = times + bool(located) > 1
                if hold and is_read_again and is_large:
                    rows = hold(rows)
            yield ImageView(format_image_view(image, self.source.name), rows, located, changes)

    def read_image(self, image: Image, fields: Sequence[str]) -> DataFrame:
        """Reads one image of the source, in the columns `fields`.

        `old` and `new` are the rows at the start and the end of the window. `delta` are the added and removed rows,
        with their multiplicity, 1 or -1. `pair` has one row per changed key, with its new values, its old values under
        names by `name_before`, and flags for their existence; it needs change rows with before images. `either` are the
        rows of `new` and all removed rows.
        """
        wanted = tuple(column for column in self.source.columns if _is_among(column.name, fields))
        if image == "new":
            return conform_frame(self.read_rows_at(self.window.end), wanted)
        assert self.window.start is not None
        if image == "old":
            return conform_frame(self.read_rows_at(self.window.start), wanted)
        if image == "pair":
            return self._read_pairs(wanted)
        moved = self._read_moved_rows(wanted)
        if image == "delta":
            return moved
        gone = moved.where(F.col(MULTIPLICITY) < 0).drop(MULTIPLICITY)
        return conform_frame(self.read_rows_at(self.window.end), wanted).unionAll(gone)

    def read_rows_at(self, version: Version, select: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> DataFrame:
        """Reads the rows of the source as of `version`, by the function `read_rows_at`."""
        return read_rows_at(self.spark, self.source, version, self.thresholds.pruning, select)

    def _read_moved_rows(self, wanted: tuple[Column, ...]) -> DataFrame:
        """Reads the rows that were added (multiplicity 1) or removed (-1), in the columns `wanted`.

        Rows that did not change in these columns are left out.
        """
        if self.source.kind == "changes":
            return self._read_moved_from_log(wanted)
        if is_appended(self.source, self.window):
            return _add_weight(conform_frame(self._read_appended(), wanted), 1)
        assert self.window.start is not None
        ends = (self.window.start, self.window.end)
        old, new = (conform_frame(self.read_rows_at(version), wanted) for version in ends)
        return compare_bags(new, old, MULTIPLICITY)

    def _read_moved_from_log(self, wanted: tuple[Column, ...]) -> DataFrame:
        assert self.source.key is not None
        if not has_before_images(self.source, self.window):
            commits = self.source.count_commits_in(self.window)
            return self._look_up_before(select_newest_changes(self._read_appended(), self.source.key, commits), wanted)
        net = self._build_net_changes(wanted)
        names = [part.name for part in wanted]
        images = [
            build_struct(
                [
                    *zip(values, names, strict=True),
                    (quote_number(weight), MULTIPLICITY),
                    (_combine_and(is_kept, net.moves), _THERE),
                ]
            )
            for values, weight, is_kept in ((net.old, -1, net.was), (net.new, 1, net.stays))
        ]
        return _explode_images(net.rows, images)

    def _read_pairs(self, wanted: tuple[Column, ...]) -> DataFrame:
        """Reads one row for each key that changed in the columns `wanted`, with the values after and before the change.

        If the window has only one commit, nothing is shuffled.
        """
        net = self._build_net_changes(wanted)
        new = zip(net.new, [part.name for part in wanted], strict=True)
        old = zip(net.old, [name_before(part.name) for part in wanted], strict=True)
        flags = ((net.stays, HAS_AFTER), (net.was, HAS_BEFORE))
        is_any = fill_statement("({was} OR {stays})", was=net.was, stays=net.stays)
        # An array, since from a condition on all columns at once Spark infers others for any combination of their
        # names: with a dozen columns, planning would never end.
        is_there = (_combine_and(is_any, net.moves), _THERE)
        return _explode_images(net.rows, [build_struct([*new, *old, *flags, is_there])])

    def _build_net_changes(self, wanted: tuple[Column, ...]) -> _Net:
        rows = self._read_net_changes(wanted)
        spelled = {column_name.lower(): quote_name(column_name) for column_name in rows.columns}
        old = [_cast_value(_write_before_image(self.source, part), part) for part in wanted]
        new = [_cast_value(spelled[part.name.lower()], part) for part in wanted]
        was = fill_statement("{before} IS NOT NULL", before=quote_name(BEFORE))
        stays = fill_statement("{action} != {delete}", action=quote_name(ACTION), delete=quote_text(DELETE))
        unlike = write_difference((b, a, part.type) for a, b, part in zip(new, old, wanted, strict=True))
        either = "(NOT ({was}) OR NOT ({stays}) OR {unlike})"
        return _Net(rows, old, new, was, stays, fill_statement(either, was=was, stays=stays, unlike=unlike))

    def _read_net_changes(self, wanted: tuple[Column, ...]) -> DataFrame:
        """Reads one change row per changed key: its newest values and action, and `_before` of its first change.

        It has at least the columns of the key, the columns `wanted`, the action and `_before`.
        """
        assert self.source.key is not None
        changes = self._read_appended()
        if self.source.count_commits_in(self.window) <= 1:
            return changes
        order = F.struct(F.col(COMMIT_ORDER), F.col(SEQUENCE))
        key = [to_column(part) for part in self.source.key]
        rest = [part.name for part in wanted if not _is_among(part.name, self.source.key)]
        was = F.expr(build_struct([(quote_name(BEFORE, part), part) for part in rest] or [(Sql("true"), "is_there")]))
        spelled = {column_name.lower(): quote_name(column_name) for column_name in changes.columns}
        newest_fields = [(quote_name(ACTION), ACTION), *[(spelled[column.lower()], column) for column in rest]]
        newest = F.max_by(F.expr(build_struct(newest_fields)), order)
        oldest = F.min_by(F.struct(F.when(F.col(BEFORE).isNotNull(), was).alias(BEFORE)), order)
        grouped = changes.groupBy(*key).agg(newest.alias("newest"), oldest.alias("oldest"))
        return grouped.select(*key, "newest.*", "oldest.*")

    def _look_up_before(self, newest: DataFrame, wanted: tuple[Column, ...]) -> DataFrame:
        """Returns the rows of the `newest` changes (multiplicity 1), and the old rows of their keys (-1).

        The old rows are read as of the window's start. This is needed if the change rows have no before images.
        """
        assert self.source.key is not None
        assert self.window.start is not None
        keys = newest.select(*as_key(self.source.key))
        old = self.read_rows_at(self.window.start)
        gone = old.join(keys.hint("shuffle_hash"), match_key(old, self.source.key), "left_semi")
        came = newest.where(F.col(ACTION) != DELETE)
        return _add_weight(conform_frame(came, wanted), 1).unionAll(_add_weight(conform_frame(gone, wanted), -1))

    def _read_appended(self) -> DataFrame:
        return read_appended_rows(self.spark, self.source, self.window)


@dataclass(frozen=True)
class SourceWindows:
    """The sources of a query, each with the window whose changes a run reads."""

    spark: SparkSession
    upstreams: Upstreams
    windows: Mapping[str, Window]
    thresholds: Thresholds

    def get_window(self, source: TableName) -> SourceWindow:
        state = self.upstreams.states[str(source)]
        assert state is not None
        return SourceWindow(self.spark, state, self.windows[str(source)], self.thresholds)

    def register_views(self, scans: Sequence[Scan], asked: Collection[str] = (), hold: Hold | None = None) -> None:
        """Creates the temporary views that `scans` read, which are all scans of these sources in operator trees.

        Changed rows get a filter with the bounds of their values in the columns `asked`, which all of them meet, and
        from which Spark derives filters on joined tables. The bounds of all views are computed by one statement.
        `hold` caches changed rows that are many and read several times; None caches none.
        """
        by_source: dict[TableName, list[Scan]] = {}
        for scan in scans:
            by_source.setdefault(scan.source, []).append(scan)
        views = [
            view for source, read in by_source.items() for view in self.get_window(source).read_views(read, asked, hold)
        ]
        pruned = [view for view in views if view.located]
        parts = [(view.rows.select(*map(to_column, view.located)), view.count) for view in pruned]
        found = collect_all_bounds(parts, self.thresholds.pruning)
        bounds = dict(zip((view.name for view in pruned), found, strict=True))
        for view in views:
            known = bounds.get(view.name)
            rows = view.rows.where(write_expression(build_bounds_condition(known))) if known else view.rows
            rows.createOrReplaceTempView(quote_name(view.name))


def _list_image_columns(scans: Iterable[Scan], asked: Collection[str]) -> tuple[str, ...]:
    """Returns the source columns from which `scans` take the operator tree's columns `asked`.

    Values before a change are columns of their own, named by `name_before`.
    """
    now = [field for scan in scans for made, field in scan.fields if made in asked]
    was = [name_before(field) for scan in scans for made, field in scan.fields if name_before(made) in asked]
    return tuple(dict.fromkeys([*now, *was]))


def read_rows_at(
    spark: SparkSession,
    source: SourceState,
    version: Version,
    thresholds: PruningThresholds,
    select: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> DataFrame:
    """Reads a source's rows as of `version`: the newest snapshot of its base table up to then, with the changes since.

    If no such snapshot is kept, all changes up to the version are folded. `select` filters the rows, and may drop any
    columns but the key. It is applied to the base table before the changes are merged into it, so a merge into few rows
    is cheap.
    """
    if source.kind != "changes":
        return select(read_table(spark, source.name, version.snapshot, source.old_column_names))
    assert source.key is not None
    columns = strip_change_columns(source.columns)
    merged = source.find_base_before(version)
    if merged is None or source.base is None:
        log = read_until(spark, source, version)
        newest = select_newest_changes(log, source.key, 2).where(F.col(ACTION) != DELETE)
        return select(conform_frame(newest, columns))
    snapshot, at = merged
    base = select(conform_frame(read_table(spark, source.base, snapshot, source.old_column_names), columns))
    span = Window(str(source.name), at, version)
    pending = source.count_commits_in(span)
    if not pending:
        return base
    unmerged = Unmerged(
        read_appended_rows(spark, source, span), pending, source.are_few_in(span, thresholds.broadcast_keys)
    )
    return select(overlay_changes(base, unmerged, source.key, columns))


def _combine_and(one: Sql, other: Sql) -> Sql:
    return fill_statement("{one} AND {other}", one=one, other=other)


def _explode_images(rows: DataFrame, images: Sequence[Sql]) -> DataFrame:
    """Expands each row into those of the structs `images` whose field _THERE is true."""
    made = rows.selectExpr(fill_statement("inline(array({images}))", images=join_parts(images)))
    return made.where(F.col(_THERE)).drop(_THERE)


@dataclass(frozen=True)
class _Net:
    """The net changes of a window, one row per key (`rows`), and SQL expressions over them.

    `old` and `new` are the values of the wanted columns before and after the changes. `was` is the condition that the
    row existed before, `stays` that it exists after them. `moves` is false if both are true and the values are equal.
    """

    rows: DataFrame
    old: list[Sql]
    new: list[Sql]
    was: Sql
    stays: Sql
    moves: Sql


def _cast_value(value: Sql, to: Column) -> Sql:
    return fill_statement("CAST({value} AS {kind})", value=value, kind=type_name(to.type))


def _write_before_image(source: SourceState, part: Column) -> Sql:
    assert source.key is not None
    return quote_name(part.name) if _is_among(part.name, source.key) else quote_name(BEFORE, part.name)


def _is_among(wanted: str, names: Sequence[str]) -> bool:
    return any(is_same_name(wanted, other) for other in names)


def _add_weight(rows: DataFrame, weight: int) -> DataFrame:
    return rows.withColumn(MULTIPLICITY, F.lit(weight))
