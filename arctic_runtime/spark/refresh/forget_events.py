"""A table of change events as it is without events that are forgotten: its rows follow from those that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.effects import retried
from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import ACTION, BEFORE, RECORDED_FROM, RECORDED_TO, SEQUENCE, plain_columns
from arctic_runtime.model.merge_columns import adds_up
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import RunSummary, last_load, last_run, offsets_of
from arctic_runtime.model.shape import INSERT, Shape, is_named
from arctic_runtime.model.state import ChangeTableState, SourceState, built
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.increment import Upstreams
from arctic_runtime.spark.refresh import beliefs, events, row_versions, truncations
from arctic_runtime.spark.refresh.diff import refresh_changes, state_changes
from arctic_runtime.spark.refresh.forget_table import publish_forgotten, rows_now, sought
from arctic_runtime.spark.refresh.query_inputs import Narrowed, QueryInputs
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.refresh.trace import key_of
from arctic_runtime.spark.tables.frames import COMMIT_ORDER, examples, match
from arctic_runtime.spark.tables.table_session import TableSession

_PLACE = "__arctic_place"


@dataclass(frozen=True)
class ForgottenRows:
    """Change rows of an upstream that are forgotten: those under `keys`, of commits before `since`, None for all.

    `restated`: the commit `since` has the rows that are still there under these keys, and nothing else.
    """

    keys: DataFrame
    since: int | None = None
    restated: bool = False

    def skip(self, source: SourceState, rows: DataFrame) -> DataFrame:
        """The rows of other keys, and those that came after the forgetting: rows to follow as any others."""
        return self._without(source, rows, self.since + 1 if self.since is not None and self.restated else self.since)

    def leave(self, source: SourceState, rows: DataFrame) -> DataFrame:
        """The rows that are left: those that `skip` leaves, and what is still there under the keys, as inserts."""
        left = self._without(source, rows, self.since)
        if self.since is None or not self.restated:
            return left
        is_restated = F.col(COMMIT_ORDER) == self.since
        said = {ACTION: F.when(is_restated, F.lit(INSERT)).otherwise(F.col(ACTION))}
        if BEFORE in left.columns:
            said[BEFORE] = F.when(~is_restated, F.col(BEFORE))
        return left.withColumns(said)

    def _without(self, source: SourceState, rows: DataFrame, before: int | None) -> DataFrame:
        gone = self.keys.select(*self.keys.columns)
        if before is None:
            return rows.join(gone, match(rows, key_of(source, gone)), "left_anti")
        placed = rows.withColumn(_PLACE, F.col(COMMIT_ORDER))
        on = match(placed, key_of(source, gone)) & (placed[_PLACE] < before)
        return placed.join(gone, on, "left_anti").drop(_PLACE)


def skipping(forgotten: Mapping[TableName, ForgottenRows]) -> Narrowed:
    """Has a refresh pass over forgotten rows: what was made of them is computed again from the others."""
    return {source: rows.skip for source, rows in forgotten.items()}


def takes_back(refresh: Refresh) -> bool:
    """Whether the rows of a model just follow the deletion of others: it adds up, and all its events can't be read."""
    model = refresh.model
    changes, _ = built(refresh.table.observe(), model.table)
    config = model.config
    rest = [of.name for of in plain_columns(changes.columns) if not is_named(of.name, config.primary_key)]
    if not adds_up(config.merge_columns, config.on_match, rest):
        return False
    return bool(_changed_otherwise(_last_run(changes)) or _losing(refresh.planner.observe_upstreams()))


def check(refresh: Refresh, keys: DataFrame, forgotten: Mapping[TableName, DataFrame]) -> None:
    """Raises DataError where the rows under some keys can't be computed again without `forgotten` rows of upstreams.

    They can't where rows were declared or restored; nor where a row follows from forgotten events and others, and these
    can't all be read any more, or do not tell what the table recorded when.
    """
    session, model = refresh.table, refresh.model
    state = session.reconciled(session.observe(), fold=True)
    last = _last_run(built(state, model.table)[0])
    if was := _changed_otherwise(last):
        raise DataError(
            f"{model.table}: rows of it were {was}, so they don't follow from events; nothing was done.\n"
            f"  what to do: run it with --full-refresh, then `arctic forget` again"
        )
    lost = _losing(refresh.planner.observe_upstreams())
    if model.config.valid_time:
        why = "bitemporal versions can't be recorded once more as of their time"
    elif lost and (model.config.has_history or not events.is_newest_event(model)):
        why = f"{', '.join(lost)} no longer keeps all rows"
    else:
        return
    found, _ = sought(session, state, keys)
    left = _left(refresh, last, {of: ForgottenRows(gone) for of, gone in forgotten.items()})
    rows = found.select(left, model.config.entity_key).limit(3).collect()
    if rows:
        raise DataError(
            f"{model.table}: rows, or versions of them, were made of forgotten events and of others, and can't be "
            f"computed again without the forgotten ones; nothing was done.\n{examples(rows)}"
            f"  why: {why}\n"
            f"  what to do: `arctic reset {model.table.name} --yes`, then `arctic forget` again, and build it anew"
        )


def recompute(refresh: Refresh, keys: DataFrame, forgotten: Mapping[TableName, ForgottenRows]) -> None:
    """Has the rows under some keys be what the events leave behind that are not `forgotten`."""
    attempts = refresh.table.reader.thresholds.commits.attempts
    retried(partial(_recompute, refresh, keys, forgotten), attempts)


def _recompute(refresh: Refresh, keys: DataFrame, forgotten: Mapping[TableName, ForgottenRows]) -> None:
    session, model = refresh.table, refresh.model
    state = session.reconciled(session.observe(), fold=True)
    changes, _ = built(state, model.table)
    found, _ = sought(session, state, keys)
    left = _left(refresh, _last_run(changes), forgotten)
    key = model.config.entity_key
    spread = truncations.spread(model, left, found.rows.toDF(*key) if key else found.rows)
    query = found.select(spread, key)
    compute = partial(_versions, session, changes) if model.config.has_history else partial(_rows, model)
    old = rows_now(session, state, found)
    publish_forgotten(session, state, lambda shape: compute(query, old, shape))
    session.reconciled(session.observe())


def _rows(model: Model, query: DataFrame, old: DataFrame, shape: Shape) -> DataFrame:
    """Change rows that turn `old` rows into what events leave behind."""
    events.check_order(model, query)
    net = events.net_events(model, query, shape)
    moved = refresh_changes(net.where("not deleted"), old, shape, False, None)
    return moved.withColumn(SEQUENCE, F.lit(None).cast(shape.sequence_type)) if shape.is_ordered else moved


def _versions(
    session: TableSession, changes: ChangeTableState, query: DataFrame, old: DataFrame, shape: Shape
) -> DataFrame:
    """Change rows that turn `old` versions into those of events."""
    versions = row_versions.rows_of_events(query, shape, session.model)
    if session.model.config.valid_time:
        time = beliefs.time_of_run(session.now, last_load(changes))
        recorded = {RECORDED_FROM: F.lit(time), RECORDED_TO: F.lit(None).cast("timestamp")}
        versions = versions.withColumns(recorded)
    return state_changes(versions, old, shape, keyed=True)


def _last_run(changes: ChangeTableState) -> RunSummary:
    last = last_run(changes)
    assert last is not None
    return last


def _changed_otherwise(last: RunSummary) -> str:
    """What brought rows of a table besides its events."""
    if last.restored is not None:
        return "restored"
    return "declared" if last.declared and last.declared.places else ""


def _losing(upstreams: Upstreams) -> Sequence[str]:
    """The upstreams that do not have all change rows any more."""
    return [of for of, state in upstreams.states.items() if state and state.has_lost_rows]


def _left(refresh: Refresh, last: RunSummary, forgotten: Mapping[TableName, ForgottenRows]) -> DataFrame:
    """What the query gives of all rows that were read, but for those that are forgotten."""
    upstreams, read = refresh.planner.observe_upstreams(), offsets_of(last)
    windows = {source: Window(source, None, version) for source, version in read.items()}
    narrowed = {source: rows.leave for source, rows in forgotten.items()}
    return QueryInputs(refresh.model, upstreams, narrowed).query(refresh.table.spark(), windows)
