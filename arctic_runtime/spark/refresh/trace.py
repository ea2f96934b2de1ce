"""Which rows of a table were ever made of given rows of its upstreams: their keys, whatever the rows are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained, refusing
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Node, Scan, scans
from arctic_runtime.ivm.render import render
from arctic_runtime.ivm.strategies.maintain import touched_keys
from arctic_runtime.model.columns import ACTION, BEFORE, Column, find_column, plain_columns
from arctic_runtime.model.names import TableName, changes_read, changes_view, image_view
from arctic_runtime.model.run_summary import last_run
from arctic_runtime.model.shape import INSERT
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.increment import Upstreams, analysis
from arctic_runtime.spark.engine.java_errors import SPARK_ERRORS
from arctic_runtime.spark.engine.statement import name
from arctic_runtime.spark.refresh.images import image_rows
from arctic_runtime.spark.refresh.retractions import retracts
from arctic_runtime.spark.tables.frames import (
    COMMIT_ORDER,
    Keys,
    as_key,
    column,
    conformed,
    read_table,
    read_until,
    with_source_position,
)
from arctic_runtime.thresholds import Thresholds


def change_rows(spark: SparkSession, model: Model, state: TableState) -> DataFrame:
    """All rows of a model's change table."""
    changes = state.changes
    assert changes is not None
    assert changes.head is not None
    return read_table(spark, model.table.changes, changes.head.snapshot, changes.formerly)


def held(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """The same rows, read at once and held by the driver."""
    return spark.createDataFrame(rows.toArrow(), rows.schema)


def rows_ever(spark: SparkSession, model: Model, state: TableState) -> DataFrame:
    """All images that change rows tell, after changes and before them, in the table's columns."""
    assert state.changes is not None
    return _images(change_rows(spark, model, state), plain_columns(state.changes.columns), model.config.primary_key)


def keys_where(spark: SparkSession, model: Model, state: TableState, condition: str) -> DataFrame:
    """The keys of all rows that ever met a condition; raises ConfigError for one that is none."""
    rows = rows_ever(spark, model, state)
    try:
        found = rows.where(F.expr(condition))
        found.schema  # noqa: B018 - has Spark read the condition
    except SPARK_ERRORS as error:
        names = ", ".join(rows.columns)
        raise ConfigError(
            f"{model.table}: {condition!r} is not a valid condition.\n  found: {str(error).splitlines()[0]}\n"
            f"  expected: a SQL predicate over the columns of the table: {names}"
        ) from error
    return found.select(*as_key(model.config.entity_key)).distinct()


def given_keys(spark: SparkSession, model: Model, state: TableState, values: Sequence[str]) -> DataFrame:
    """Keys that are given as texts, one after the other; raises ConfigError for values that are none."""
    assert state.changes is not None
    key = model.config.entity_key
    if not key or not values or len(values) % len(key):
        raise ConfigError(
            f"{model.table}: the number of key values is wrong.\n"
            f"  expected: one value for each of {', '.join(key) or 'no column'}, for each key\n"
            f"  found: {len(values)} value(s)"
        )
    kinds = [kept.type for part in key if (kept := find_column(state.changes.columns, part))]
    rows = [tuple(values[place : place + len(key)]) for place in range(0, len(values), len(key))]
    texts = spark.createDataFrame(rows, ", ".join(f"k{place} string" for place in range(len(key))))
    casts = [F.col(f"k{i}").try_cast(kind).alias(key[i]) for i, kind in enumerate(kinds)]
    typed = texts.select(*casts)
    for row, given in zip(typed.collect(), rows, strict=True):
        wrong = next((part for part, value in zip(key, row, strict=True) if value is None), None)
        if wrong is not None:
            raise ConfigError(f"{model.table}: {given[key.index(wrong)]!r} is not a valid value of the key `{wrong}`")
    return typed.select(*as_key(key)).distinct()


def keys_ever(spark: SparkSession, model: Model, state: TableState, among: Keys | None = None) -> DataFrame:
    """The keys of all rows that there ever were, or of those `among` some keys."""
    log = change_rows(spark, model, state)
    log = log if among is None else among.select(log, model.config.entity_key)
    return log.select(*as_key(model.config.entity_key)).distinct()


def keys_changed_after(spark: SparkSession, model: Model, state: TableState, sequence: int) -> DataFrame:
    """The keys of rows that were updated or deleted by commits after one, which change rows tell what they were."""
    changed = change_rows(spark, model, state).where((F.col(COMMIT_ORDER) > sequence) & (F.col(ACTION) != INSERT))
    return changed.select(*as_key(model.config.entity_key)).distinct()


def keys_made_of(
    spark: SparkSession,
    model: Model,
    state: TableState,
    upstreams: Upstreams,
    forgotten: Mapping[TableName, Keys],
    thresholds: Thresholds,
) -> DataFrame:
    """The keys of rows that were ever made of `forgotten` rows, by the upstreams that hold these; perhaps others too.

    Upstreams have to be as they are before anything is forgotten. Where the query can't be followed these are all keys.
    """
    if model.config.input == "changes":
        return _keys_of_events(spark, model, upstreams, forgotten)
    last = last_run(state.changes)
    try:
        if last is None or last.given_up is not None:
            raise NotMaintained("UNSUPPORTED", "the query is computed in full each time")
        found = _touched(model, upstreams, frozenset(forgotten))
    except NotMaintained:
        return keys_ever(spark, model, state)
    if found is None:
        return keys_ever(spark, model, state).limit(0)
    tree, key = found
    others = {scan.source for scan in scans(tree)} - forgotten.keys()
    had_others = any(_has_history(upstreams.states[str(source)]) for source in others)
    made = []
    for ever in (False, True) if had_others else (False,):
        _register(spark, tree, upstreams, forgotten, thresholds, ever)
        rows = spark.sql(render(tree)).select(*[column(part) for part in key]).toDF(*model.config.entity_key)
        keys = rows.select(*as_key(model.config.entity_key)).distinct()
        made.append(held(spark, keys))  # Views of the next round have the same names.
    return reduce(DataFrame.unionAll, made).distinct()


def _has_history(state: SourceState | None) -> bool:
    """Whether a source tells rows that it no longer has, which forgotten rows may have met."""
    return state is not None and state.kind == "changes" and (len([of for of in state.commits if of.rows]) > 1)


def _touched(model: Model, upstreams: Upstreams, changed: frozenset[TableName]) -> tuple[Node, tuple[str, ...]] | None:
    """The tree that gives the keys of what the changed sources' rows touch, and its columns; None for nothing."""
    analysed, key = analysis(model, upstreams)
    with refusing():
        found = touched_keys(analysed.tree, key, changed)
    return None if found is None else (found, key)


def _register(
    spark: SparkSession,
    tree: Node,
    upstreams: Upstreams,
    forgotten: Mapping[TableName, Keys],
    thresholds: Thresholds,
    ever: bool,
) -> None:
    """Makes the views that a tree reads: what changed are all images of forgotten rows.

    Of other sources these are the rows that they have now, or all that they `ever` had.
    """
    read: dict[tuple[TableName, str], list[Scan]] = {}
    for scan in scans(tree):
        read.setdefault((scan.source, scan.image), []).append(scan)
    for (source, image), found in read.items():
        state = upstreams.states[str(source)]
        assert state is not None
        fields = tuple(dict.fromkeys(field for scan in found for _, field in scan.fields))
        rows = _image(spark, state, image, fields, forgotten.get(source), thresholds)
        if ever and source not in forgotten and state.kind == "changes":
            rows = _ever(spark, state, fields)
        rows.createOrReplaceTempView(name(image_view(image, source)))


def _image(
    spark: SparkSession,
    source: SourceState,
    image: str,
    fields: Sequence[str],
    keys: Keys | None,
    thresholds: Thresholds,
) -> DataFrame:
    now = Window(str(source.name), source.version, source.version)
    if image in ("new", "old") or keys is None:
        return image_rows(spark, source, now, "new", fields, thresholds.pruning)
    assert source.key is not None
    images = _ever(spark, source, fields, keys)
    if image == "either":
        return image_rows(spark, source, now, "new", fields, thresholds.pruning).unionAll(images)
    signs = [images.withColumn(MULTIPLICITY, F.lit(sign)) for sign in (1, -1)]
    return signs[0].unionAll(signs[1])


def _ever(spark: SparkSession, source: SourceState, fields: Sequence[str], among: Keys | None = None) -> DataFrame:
    """All images that change rows of an arctic model tell, or those under some keys, in the columns `fields`."""
    assert source.key is not None
    kept = tuple(of for of in source.columns if any(of.name.lower() == wanted.lower() for wanted in fields))
    # A view or a base that is behind has not shown the newest rows, which a reader of changes may have seen.
    log = read_table(spark, source.log, source.commits[-1].version.snapshot, source.formerly)
    log = log if among is None else among.select(log, key_of(source, among.rows))
    return conformed(_images(log, plain_columns(source.columns), source.key), kept)


def key_of(source: SourceState, keys: DataFrame) -> tuple[str, ...]:
    """The columns of a source that frames of its keys have: all of its key, or without that of a row's version."""
    assert source.key is not None
    return source.key[: len(keys.columns)]


def _images(log: DataFrame, columns: Sequence[Column], key: Sequence[str]) -> DataFrame:
    """Rows as they were after changes and before them."""
    names = [of.name for of in columns]
    after = log.select(*[column(of) for of in names])
    if BEFORE not in log.columns:
        return after
    keyed = {part.lower() for part in key}
    before = log.where(F.col(BEFORE).isNotNull()).select(
        *[column(of) if of.lower() in keyed else F.col(BEFORE)[of].alias(of) for of in names]
    )
    return after.unionAll(before)


def makes_events_of(
    spark: SparkSession, model: Model, upstreams: Upstreams, forgotten: Mapping[TableName, Keys]
) -> bool:
    """Whether the query of change events makes any of change rows of forgotten keys."""
    return any(not rows.isEmpty() for rows in _events_of(spark, model, upstreams, forgotten))


def _keys_of_events(
    spark: SparkSession, model: Model, upstreams: Upstreams, forgotten: Mapping[TableName, Keys]
) -> DataFrame:
    """The keys of all events that the query makes of change rows of forgotten keys."""
    found = []
    for rows in _events_of(spark, model, upstreams, forgotten):
        keys = rows.select(*as_key(model.config.entity_key)).distinct()
        found.append(held(spark, keys))  # Views of the next round have the same names.
    return reduce(DataFrame.unionAll, found).distinct()


def _events_of(
    spark: SparkSession, model: Model, upstreams: Upstreams, forgotten: Mapping[TableName, Keys]
) -> Iterator[DataFrame]:
    """What the query makes of change rows of forgotten keys, for each upstream that has such; to be read in turn."""
    for forgets in (source for source in changes_read(model.sql) if source in forgotten):
        for source in changes_read(model.sql):
            state = upstreams.states[str(source)]
            assert state is not None
            rows = read_until(spark, state, state.version)
            if source == forgets:
                rows = forgotten[source].select(rows, key_of(state, forgotten[source].rows))
            shown = with_source_position(rows) if state.format_version >= 3 else rows
            shown = _with_images_before(shown) if retracts(model, state) else shown
            shown.createOrReplaceTempView(name(changes_view(source)))
        yield spark.sql(model.sql)


def _with_images_before(rows: DataFrame) -> DataFrame:
    """Change rows, and what they take back, which stood under another key perhaps."""
    if BEFORE not in rows.columns:
        return rows
    told = {of.lower() for of in rows.select(f"{BEFORE}.*").columns}
    was = {of: F.col(BEFORE)[of] for of in rows.columns if of.lower() in told}
    return rows.unionByName(rows.where(F.col(BEFORE).isNotNull()).withColumns(was))
