"""Determines the keys of all rows that were ever computed from given upstream rows, even of rows changed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained, refuse_on_error
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Image, Node, Scan, list_scans
from arctic_runtime.ivm.frontend.reads import find_reads
from arctic_runtime.ivm.provenance.restrictions import keep_branches_of
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.rewrite.predicate_pushdown import drop_clock_conditions
from arctic_runtime.ivm.strategies.maintain import derive_touched_keys
from arctic_runtime.model.columns import ACTION, BEFORE, Column, find_column, strip_change_columns
from arctic_runtime.model.names import TableName, format_changes_view, format_image_view, list_changes_read
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.shape import INSERT
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_events, analyse_model
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.events.retract import is_retracting
from arctic_runtime.spark.refresh.images import SourceWindow
from arctic_runtime.spark.refresh.run import to_refusal
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    Keys,
    as_key,
    conform_frame,
    read_all_changes,
    read_until,
    to_column,
    with_source_position,
)
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.thresholds import Thresholds


def hold_in_driver(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """Computes `rows` at once, and returns them as a DataFrame that is stored in the driver."""
    return spark.createDataFrame(rows.toArrow(), rows.schema)


def read_rows_ever(spark: SparkSession, model: Model, state: TableState, snapshot: int | None = None) -> DataFrame:
    """Reads all rows that a table ever had, from its change rows: the new and the old row of each change.

    The change rows are those at `snapshot` of the change table, by default its head.
    """
    assert state.changes is not None
    return _union_images(
        read_all_changes(spark, model, state, snapshot),
        strip_change_columns(state.changes.columns),
        model.config.primary_key,
    )


def find_keys_where(
    spark: SparkSession, model: Model, state: TableState, condition: str, snapshot: int | None = None
) -> DataFrame:
    """Returns the keys of all rows that ever met `condition`, up to `snapshot` of the change table or its head.

    Raises ConfigError if the condition is not a SQL predicate.
    """
    rows = read_rows_ever(spark, model, state, snapshot)
    try:
        matching = rows.where(F.expr(condition))
        matching.schema  # noqa: B018 - has Spark read the condition
    except SPARK_ERRORS as error:
        names = ", ".join(rows.columns)
        raise ConfigError(
            f"{model.table}: {condition!r} is not a valid condition.",
            expected=f"a SQL predicate over the columns of the table: {names}",
            actual=str(error).splitlines()[0],
        ) from error
    return matching.select(*as_key(model.config.entity_key)).distinct()


def parse_given_keys(spark: SparkSession, model: Model, state: TableState, values: Sequence[str]) -> DataFrame:
    """Parses the texts `values` to a DataFrame of distinct keys, with columns named as by `as_key`.

    `values` has the values of one or several keys, one after the other. Raises ConfigError if their number is not a
    multiple of the number of key columns, or if a value is not valid for the type of its column.
    """
    assert state.changes is not None
    key = model.config.entity_key
    if not key or not values or len(values) % len(key):
        raise ConfigError(
            f"{model.table}: the number of key values is wrong.",
            expected=f"one value for each of {', '.join(key) or 'no column'}, for each key",
            actual=f"{len(values)} value(s)",
        )
    kinds = [column.type for part in key if (column := find_column(state.changes.columns, part))]
    rows = [tuple(values[place : place + len(key)]) for place in range(0, len(values), len(key))]
    texts = spark.createDataFrame(rows, ", ".join(f"k{place} string" for place in range(len(key))))
    casts = [F.col(f"k{i}").try_cast(kind).alias(key[i]) for i, kind in enumerate(kinds)]
    typed = texts.select(*casts)
    for row, key_texts in zip(typed.collect(), rows, strict=True):
        wrong = next((part for part, value in zip(key, row, strict=True) if value is None), None)
        if wrong is not None:
            raise ConfigError(
                f"{model.table}: {key_texts[key.index(wrong)]!r} is not a valid value of the key `{wrong}`"
            )
    return typed.select(*as_key(key)).distinct()


def list_keys_ever(spark: SparkSession, model: Model, state: TableState, among: Keys | None = None) -> DataFrame:
    """Returns the distinct keys of all rows that a table ever had; if `among` is given, only keys in `among`."""
    log = read_all_changes(spark, model, state)
    log = log if among is None else among.select_rows(log, model.config.entity_key)
    return log.select(*as_key(model.config.entity_key)).distinct()


def list_keys_changed_after(spark: SparkSession, model: Model, state: TableState, sequence: int) -> DataFrame:
    """Returns the keys of rows that commits after the sequence number `sequence` updated or deleted."""
    changed = read_all_changes(spark, model, state).where((F.col(COMMIT_ORDER) > sequence) & (F.col(ACTION) != INSERT))
    return changed.select(*as_key(model.config.entity_key)).distinct()


def list_keys_made_of(
    session: TableSession, state: TableState, upstreams: Upstreams, forgotten: Mapping[TableName, Keys]
) -> DataFrame:
    """Returns the keys of all rows of a table that were ever computed from `forgotten` rows of its upstreams.

    `forgotten` has the keys of these rows by upstream; the rows must not have been deleted yet. The result may contain
    further keys. It has all keys of the table if the query can't be refreshed incrementally, or if Spark refuses the
    query that is written for the trace.
    """
    spark, model = session.spark(), session.model
    if model.config.input == "changes":
        return _list_event_keys(session, upstreams, forgotten)
    last = find_last_run(state.changes)
    try:
        if last is None or last.given_up is not None:
            raise NotMaintained("UNSUPPORTED", "the query is computed in full each time")
        tree_and_key = derive_touched_tree(model, upstreams, frozenset(forgotten))
    except NotMaintained:
        return list_keys_ever(spark, model, state)
    if tree_and_key is None:
        return list_keys_ever(spark, model, state).limit(0)
    try:
        return _compute_touched_keys(session, upstreams, forgotten, *tree_and_key)
    except SPARK_ERRORS as error:
        if to_refusal(error) is None:
            raise
        return list_keys_ever(spark, model, state)


def _compute_touched_keys(
    session: TableSession,
    upstreams: Upstreams,
    forgotten: Mapping[TableName, Keys],
    tree: Node,
    key: Sequence[str],
) -> DataFrame:
    """Computes the keys of the rows that `tree` derives from forgotten rows, now and with all earlier rows of others.

    `key` are the columns of the tree that are the table's key.
    """
    spark, model = session.spark(), session.model
    others = {scan.source for scan in list_scans(tree)} - forgotten.keys()
    had_others = any(_has_history(upstreams.states[str(source)]) for source in others)
    images, made = _SourceImages(spark, upstreams, forgotten, session.reader.thresholds), []
    for ever in (False, True) if had_others else (False,):
        images.register_views(tree, ever)
        rows = spark.sql(render_sql(tree)).select(*[to_column(part) for part in key]).toDF(*model.config.entity_key)
        keys = rows.select(*as_key(model.config.entity_key)).distinct()
        made.append(hold_in_driver(spark, keys))  # Views of the next round have the same names.
    return reduce(DataFrame.unionAll, made).distinct()


def _has_history(state: SourceState | None) -> bool:
    """Whether a source had other rows in the past, with which forgotten rows of other sources may have been joined."""
    return (
        state is not None and state.kind == "changes" and (len([commit for commit in state.commits if commit.rows]) > 1)
    )


def derive_touched_tree(
    model: Model, upstreams: Upstreams, changed: frozenset[TableName]
) -> tuple[Node, tuple[str, ...]] | None:
    """Derives an operator tree that computes the keys of all result rows that depend on changed rows of some sources.

    `changed` names the sources with changed rows. Returns the tree and the names of its key columns, or None if no
    result row is affected. Raises NotMaintained if the query can't be refreshed incrementally.
    """
    analysed, key = analyse_model(model, upstreams)
    with refuse_on_error():
        # A row may have been in a window of time, and have left it.
        touched_tree = derive_touched_keys(drop_clock_conditions(analysed.tree), key, changed)
    return None if touched_tree is None else (touched_tree, key)


@dataclass(frozen=True)
class _SourceImages:
    """Creates the views that a derived operator tree reads; the rows of `forgotten` keys count as the changed rows."""

    spark: SparkSession
    upstreams: Upstreams
    forgotten: Mapping[TableName, Keys]
    thresholds: Thresholds

    def register_views(self, tree: Node, ever: bool) -> None:
        """Creates the temporary views that `tree` reads.

        The changed rows of a source are all rows that ever had one of its forgotten keys. The view of a source without
        forgotten keys has the source's current rows, or if `ever`, all rows that the source ever had.
        """
        read: dict[tuple[TableName, Image], list[Scan]] = {}
        for scan in list_scans(tree):
            read.setdefault((scan.source, scan.image), []).append(scan)
        for (source, image), image_scans in read.items():
            state = self.upstreams.states[str(source)]
            assert state is not None
            fields = tuple(dict.fromkeys(field for scan in image_scans for _, field in scan.fields))
            keys = self.forgotten.get(source)
            is_ever = ever and keys is None and state.kind == "changes"
            rows = _read_images_ever(self.spark, state, fields) if is_ever else self._read(state, image, fields, keys)
            rows.createOrReplaceTempView(quote_name(format_image_view(image, source)))

    def _read(self, source: SourceState, image: Image, fields: Sequence[str], keys: Keys | None) -> DataFrame:
        if image in ("new", "old") or keys is None:
            return self._read_now(source, fields)
        assert source.key is not None
        images = _read_images_ever(self.spark, source, fields, keys)
        if image == "either":
            return self._read_now(source, fields).unionAll(images)
        signs = [images.withColumn(MULTIPLICITY, F.lit(sign)) for sign in (1, -1)]
        return signs[0].unionAll(signs[1])

    def _read_now(self, source: SourceState, fields: Sequence[str]) -> DataFrame:
        return _read_now(self.spark, source, fields, self.thresholds)


def _read_now(spark: SparkSession, source: SourceState, fields: Sequence[str], thresholds: Thresholds) -> DataFrame:
    now = Window(str(source.name), source.version, source.version)
    return SourceWindow(spark, source, now, thresholds).read_image("new", fields)


def _read_images_ever(
    spark: SparkSession, source: SourceState, fields: Sequence[str], among: Keys | None = None
) -> DataFrame:
    """Reads all rows that an arctic model ever had, in the columns `fields`.

    If `among` is given, only rows with these keys are returned.
    """
    assert source.key is not None
    columns_read = tuple(
        column for column in source.columns if any(column.name.lower() == wanted.lower() for wanted in fields)
    )
    # The newest commit, since readers of changes may have seen rows that the view or the base does not have yet.
    log = read_until(spark, source, source.commits[-1].version)
    log = log if among is None else among.select_rows(log, get_key_columns(source, among.rows))
    return conform_frame(_union_images(log, strip_change_columns(source.columns), source.key), columns_read)


def get_key_columns(source: SourceState, keys: DataFrame) -> tuple[str, ...]:
    """Returns the key columns of `source` to which the columns of `keys` belong.

    These are all key columns; but if the source is a table with history, those without the start of the version.
    """
    assert source.key is not None
    return source.key[: len(keys.columns)]


def _union_images(log: DataFrame, columns: Sequence[Column], key: Sequence[str]) -> DataFrame:
    """Returns the new and the old row of each change row in `log`, as rows with only the table's `columns`."""
    names = [column.name for column in columns]
    after = log.select(*[to_column(column) for column in names])
    if BEFORE not in log.columns:
        return after
    keyed = {part.lower() for part in key}
    before = log.where(F.col(BEFORE).isNotNull()).select(
        *[to_column(column) if column.lower() in keyed else F.col(BEFORE)[column].alias(column) for column in names]
    )
    return after.unionAll(before)


def has_events_of(session: TableSession, upstreams: Upstreams, forgotten: Mapping[TableName, Keys]) -> bool:
    """Whether the query of a model returns any row for the change rows of `forgotten` keys in its upstreams.

    The query must be one of change events, which reads change rows of upstreams.
    """
    return any(not rows.isEmpty() for rows in _list_events_of(session, upstreams, forgotten))


def _list_event_keys(session: TableSession, upstreams: Upstreams, forgotten: Mapping[TableName, Keys]) -> DataFrame:
    """Returns the keys of all rows that the model's query returns for upstream change rows of `forgotten` keys."""
    key_frames = []
    for rows in _list_events_of(session, upstreams, forgotten):
        keys = rows.select(*as_key(session.model.config.entity_key)).distinct()
        key_frames.append(hold_in_driver(session.spark(), keys))  # Views of the next round have the same names.
    return reduce(DataFrame.unionAll, key_frames).distinct()


def _list_events_of(
    session: TableSession, upstreams: Upstreams, forgotten: Mapping[TableName, Keys]
) -> Iterator[DataFrame]:
    """Yields for each upstream with `forgotten` keys the rows that the model's query returns for these keys.

    The query then reads only the change rows of the forgotten keys from this upstream, and all change rows from the
    other upstreams, except in branches of unions that do not read this one. Each result must be read before the next
    one is taken, since all use the same temporary views.
    """
    spark, model = session.spark(), session.model
    for forgets in (source for source in list_changes_read(model.sql) if source in forgotten):
        for source in list_changes_read(model.sql):
            state = upstreams.states[str(source)]
            assert state is not None
            rows = read_until(spark, state, state.version)
            if source == forgets:
                rows = forgotten[source].select_rows(rows, get_key_columns(state, forgotten[source].rows))
            shown = with_source_position(rows) if state.format_version >= 3 else rows
            shown = _add_images_before(shown) if is_retracting(model, state) else shown
            shown.createOrReplaceTempView(quote_name(format_changes_view(source)))
        yield _query_branches_of(session, upstreams, forgets)


def _query_branches_of(session: TableSession, upstreams: Upstreams, source: TableName) -> DataFrame:
    """Runs the query of a model over the views of its events, without branches of unions that do not read `source`.

    A query that can't be analysed is run as a whole.
    """
    spark, model = session.spark(), session.model
    events = {model.table.with_name(format_changes_view(name)): name for name in list_changes_read(model.sql)}
    if len(events) == 1:
        return spark.sql(model.sql)
    reads = find_reads(model.sql, model.table.catalog, model.table.schema).tables
    states = {name: observe_source(session.reader, name) for name in reads if name not in events}
    joined = {name: state for name, state in states.items() if state is not None}
    try:
        analysed, _, _ = analyse_events(model, upstreams, joined.values())
    except NotMaintained:
        return spark.sql(model.sql)
    tree = keep_branches_of(analysed.tree, [name for name, own in events.items() if own == source])
    fields: dict[TableName, dict[str, None]] = {}
    for scan in list_scans(tree):
        fields.setdefault(scan.source, {}).update(dict.fromkeys(column for _, column in scan.fields))
    for name, columns in fields.items():
        rows = (
            spark.table(quote_name(name.name)).select(*map(to_column, columns))
            if name in events
            else _read_now(spark, joined[name], tuple(columns), session.reader.thresholds)
        )
        rows.createOrReplaceTempView(quote_name(format_image_view("new", name)))
    return spark.sql(render_sql(tree)).select(*[to_column(own).alias(name) for name, own in analysed.outputs if name])


def _add_images_before(rows: DataFrame) -> DataFrame:
    """Adds the old row of each change (`_before`) as a further row, since the query may compute another key from it."""
    if BEFORE not in rows.columns:
        return rows
    before_names = {column.lower() for column in rows.select(f"{BEFORE}.*").columns}
    was = {column: F.col(BEFORE)[column] for column in rows.columns if column.lower() in before_names}
    return rows.unionByName(rows.where(F.col(BEFORE).isNotNull()).withColumns(was))
