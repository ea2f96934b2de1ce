"""Runs a model's query over versions of its upstreams, over change rows of windows, or over all past change events.

Selects the rows that a test looks at, too, if it passed at an earlier version of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ivm.frontend.reads import add_event_position
from arctic_runtime.ivm.row_tests import RowTest
from arctic_runtime.model.columns import ACTION, SEQUENCE, strip_change_columns
from arctic_runtime.model.names import (
    History,
    TableName,
    format_changes_view,
    format_history_view,
    list_changes_read,
    replace_with_history,
)
from arctic_runtime.model.state import ChangeTableState, SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.events.retract import has_positions, is_retracting, read_event_rows
from arctic_runtime.spark.events.truncate import is_truncation
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    conform_frame,
    drop_lineage,
    match_key,
    read_appended_rows,
    read_table,
    read_until,
    select_newest_changes,
    to_column,
)
from arctic_runtime.thresholds import PruningThresholds

Narrowed = Mapping[TableName, Callable[[SourceState, DataFrame], DataFrame]]
"""Functions by upstream that filter its change rows in a window before a query of change events reads them."""


@dataclass(frozen=True)
class QueryInputs:
    """A model's query, to be run over given versions of its upstreams.

    `narrowed` has, for some upstreams, a function that filters their change rows before the query reads them.
    """

    model: Model
    upstreams: Upstreams
    narrowed: Narrowed = field(default_factory=dict)

    def run_query(self, spark: SparkSession, windows: Mapping[str, Window], other: History | None = None) -> DataFrame:
        """Runs the query; each `changes(…)` in it reads the change rows of its upstream's window.

        `windows` has the windows by the names of upstreams; of an upstream without a window all change rows are read. A
        window without a start may end at an expired snapshot. If `other` is given, the temporary views of the sources
        have other names, so that the result can be read together with the result of the run's own query.
        """
        sources = list_changes_read(self.model.sql)
        states = {source: self.upstreams.states.get(str(source)) for source in sources}
        is_placed = has_positions(states.values())
        for source, state in states.items():
            if state is None:
                raise SourceError(
                    f"{self.model.table}: {source} has no snapshot, so its changes can't be read.",
                    fix="write to the table first",
                )
            self._check_whole_rows(state)
            window = windows.get(str(source)) or Window(str(source), None, state.version)
            rows = read_appended_rows(spark, state, window) if window.start else read_until(spark, state, window.end)
            rows = self.narrowed[source](state, rows) if source in self.narrowed else rows
            view = format_changes_view(source) if other is None else format_history_view(other, source)
            shown = read_event_rows(self.model, state, rows, window, is_placed)
            shown = drop_lineage(shown) if state.baseline else shown
            shown.createOrReplaceTempView(quote_name(view))
        placed = (
            add_event_position(self.model.sql, bool(self.model.config.sequence_groups))
            if self.model.config.input == "changes" and is_placed
            else None
        )
        if placed is None:
            self._check_retractions(states.values())
        if other is not None:
            return spark.sql(replace_with_history(other, placed or self.model.sql))
        return spark.sql(placed or self.model.sql)

    def _check_retractions(self, states: Iterable[SourceState | None]) -> None:
        changed = [str(state.name) for state in states if state is not None and is_retracting(self.model, state)]
        if changed:
            raise ConfigError(
                f"{self.model.table}: `merge_columns` over {', '.join(changed)} needs to know by which change each "
                "event came, so that an update counts as its new row less its old one.",
                expected=(
                    "a plain select from one changes(…), without `select *`, `with`, grouping, `distinct` or `limit`"
                ),
                fix="write the query like that, and join or group in a model before or after it",
            )

    def _check_whole_rows(self, state: SourceState) -> None:
        if self.model.config.has_partial_events and is_retracting(self.model, state):
            raise ConfigError(
                f"{self.model.table}: `merge_columns` over {state.name} takes back whole rows, and "
                "`columns_to_update` or `unavailable_value` says that events are parts of rows.",
                expected="a landing table of events as the source, or a model without `merge_columns`",
                fix="compute these columns in a model that reads this one",
            )


def read_seen_places(
    spark: SparkSession, model: Model, changes: ChangeTableState, upstreams: Upstreams, offsets: Mapping[str, Version]
) -> DataFrame:
    """Reads the keys and `sequence_by` values of all change rows of a table, and of all events that were ever read.

    The columns are those of the key, and `_seq` with the value of `sequence_by`. `offsets` has the versions up to which
    the upstreams were read.
    """
    sequence = model.config.sequence_by
    assert changes.newest is not None
    assert sequence is not None
    log = read_table(spark, model.table.changes, changes.newest.snapshot)
    key = [to_column(part) for part in model.config.primary_key]
    events = read_past_events(spark, model, upstreams, "seen", offsets)
    of_rows = events.where(~is_truncation(model, events)).select(*key, to_column(sequence).alias(SEQUENCE))
    return log.select(*key, to_column(SEQUENCE)).unionAll(of_rows)


def read_past_events(
    spark: SparkSession, model: Model, upstreams: Upstreams, history: History, versions: Mapping[str, Version]
) -> DataFrame:
    """Runs the model's query over all rows of its sources up to `versions`, by the names of the sources.

    A source that is not in `versions` counts as empty. `history` is a part of the names of the temporary views that the
    query reads, so that results with different names can be read together.
    """
    windows = {source: Window(source, None, version) for source, version in versions.items()}
    unread: Narrowed = {source: _no_rows for source in list_changes_read(model.sql) if str(source) not in versions}
    return QueryInputs(model, upstreams, unread).run_query(spark, windows, history)


def _no_rows(_: SourceState, rows: DataFrame) -> DataFrame:
    return rows.where(F.lit(False))


def select_tested_rows(
    spark: SparkSession,
    test: RowTest,
    states: Mapping[TableName, SourceState],
    windows: Mapping[TableName, Window],
    thresholds: PruningThresholds,
) -> dict[TableName, DataFrame]:
    """Returns, for each table of a test, the rows that the test reads in place of all rows.

    `states` are the tables as the test sees them, and `windows` their changes since the test passed.
    """
    state, window = states[test.table], windows[test.table]
    assert state.key
    is_few = state.are_few_in(window, thresholds.broadcast_keys)
    newest = _select_newest(spark, state, window)
    alive = conform_frame(newest.where(F.col(ACTION) != "delete"), strip_change_columns(state.columns))
    keys = _build_hint(newest.select(*as_key(state.key)), is_few)
    stored = spark.table(quote_name(*test.table.parts))
    if test.looks == "stored":
        return {test.table: stored.join(keys, match_key(stored, state.key), "left_semi")}
    if test.parent is None:
        return {test.table: alive}
    other, changes = states[test.parent], windows[test.parent]
    assert other.key
    rows = alive
    if not changes.is_empty:
        deleted = _select_newest(spark, other, changes).where(F.col(ACTION) == "delete").select(*as_key(other.key))
        lost = _build_hint(deleted, other.are_few_in(changes, thresholds.broadcast_keys))
        orphans = stored.join(lost, match_key(stored, [test.column]), "left_semi")
        unchanged = orphans.join(keys, match_key(orphans, state.key), "left_anti")
        rows = alive.unionAll(conform_frame(unchanged, strip_change_columns(state.columns)))
    references = _build_hint(rows.select(*as_key([test.column])), is_few and changes.is_empty)
    partners = spark.table(quote_name(*test.parent.parts))
    return {test.table: rows, test.parent: partners.join(references, match_key(partners, other.key), "left_semi")}


def _select_newest(spark: SparkSession, state: SourceState, window: Window) -> DataFrame:
    """Returns the newest change row of each key with changes in a window."""
    assert state.key
    changes = read_appended_rows(spark, state, window)
    return select_newest_changes(changes, state.key, state.count_commits_in(window))


def _build_hint(keys: DataFrame, is_few: bool) -> DataFrame:
    return keys.hint("broadcast") if is_few else keys
