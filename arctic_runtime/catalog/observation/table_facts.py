"""Observes the facts from which the freshness of a table is computed: commits, offsets, and progress of ingestion."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from arctic_runtime.catalog.observation.tables import observe_model, observe_progress, observe_source
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName, parse_full_name
from arctic_runtime.model.run_summary import RunSummary, find_awaited_cut, find_last_run, get_offsets, is_run
from arctic_runtime.model.sources.freshness import NoRefreshReason, TableFacts, to_origin_status
from arctic_runtime.model.sources.ingestion import Progress, SourceProgress, time_of
from arctic_runtime.model.state import ChangeTableState, Commit, TableState
from arctic_runtime.model.table import Model


def observe_facts(reader: CatalogReader, name: TableName, model: Model | None) -> TableFacts | None:
    """Returns the facts about the table `name` for its freshness; None if there is no such table.

    `model` is the table's model. If it is None or a landing table, other programs write the table. A table of a source
    whose first load waits or is under way has facts too, without commits.
    """
    if model is None or model.is_landing:
        source = observe_source(reader, name)
        if source is None:
            return None
        return TableFacts(source.version.table, source.commits, expired_until=_find_expired_sequence(source.commits))
    # Read before the commits: a commit that follows in between is then more than the progress says, never less.
    progress = _observe_progress(reader, model)
    state = observe_model(reader, model)
    return _build_absent_facts(model, progress) if state.log is None else to_facts(model, state, state.log, progress)


def _build_absent_facts(model: Model, progress: SourceProgress) -> TableFacts | None:
    """Builds the facts of a table that does not exist yet; None unless its first load waits or is under way."""
    table, known = model.ingested_from, progress.progress
    if model.source is None or table is None or not (table in known.waits or table in known.loading):
        return None
    return TableFacts("", origin=to_origin_status(model.source, table, progress, ()))


def _observe_progress(reader: CatalogReader, model: Model) -> SourceProgress:
    known = None if model.source is None else observe_progress(reader, model.source.dead_letters)
    return known or SourceProgress(Progress(), 0)


def to_facts(model: Model, state: TableState, log: ChangeTableState, progress: SourceProgress) -> TableFacts:
    """Builds the facts of a model's table from its state, whose `log` is the table that its runs commit to.

    `progress` is that of the source of an ingested table. Commits that readers of the table do not see yet are left
    out, since the base or the view follows its change table in commits of its own.
    """
    shown, hidden = _split_by_visibility(model, state, log)
    seen = replace(log, commits=shown)
    commits = tuple(commit for commit in shown if commit.rows or is_run(commit))
    lag = float(model.config.target_lag)
    expired = _find_expired_sequence(log.commits)
    if model.ingested_from is None:
        cut = find_awaited_cut(log)
        wait = _explain_wait(model, cut) if cut is not None else None
        return TableFacts(log.uuid, commits, get_offsets(find_last_run(seen)), None, lag, wait, expired)
    if model.source is None:
        return TableFacts(log.uuid, commits, None, None, lag, expired_until=expired)
    origin = to_origin_status(model.source, model.ingested_from, progress, commits)
    if hidden:
        # The progress may be that after the first of these commits, which says what the table showed before.
        before = RunSummary.decode(hidden[0].summary).shown_before_ms
        origin = replace(origin, as_of=_find_earlier(origin.as_of, before))
    return TableFacts(log.uuid, commits, None, origin, lag, expired_until=expired)


def _explain_wait(model: Model, cut: str) -> NoRefreshReason:
    return NoRefreshReason(
        f"waits for the query of {cut}", f"deploy the code of that build, or run `arctic resume {model.table.name}`"
    )


def _find_expired_sequence(commits: Sequence[Commit]) -> int:
    """Returns the sequence number before that of the oldest kept commit; 0 if no commit has expired."""
    return commits[0].version.sequence - 1 if commits and commits[0].parent is not None else 0


def _find_earlier(as_of: datetime | None, millis: int | None) -> datetime | None:
    """Returns the earlier of two times, the second in milliseconds since 1970; None if one of them is not known."""
    return None if as_of is None or millis is None else min(as_of, time_of(millis))


def _split_by_visibility(
    model: Model, state: TableState, log: ChangeTableState
) -> tuple[tuple[Commit, ...], tuple[Commit, ...]]:
    """Splits the commits of `log` before the first one with rows that readers of the table do not see yet."""
    if state.appended is not None:
        return log.commits, ()
    shown = _find_shown_sequence(model, state, log)
    hidden = (index for index, commit in enumerate(log.commits) if commit.rows and commit.version.sequence > shown)
    first = next(hidden, len(log.commits))
    return log.commits[:first], log.commits[first:]


def _find_shown_sequence(model: Model, state: TableState, log: ChangeTableState) -> int:
    """Sequence number of the version of the change table that the base or the view shows; 0 if there is none."""
    merged = state.base.merged if state.base is not None else None
    if model.config.merge == "on_write":
        return merged.sequence if merged is not None else 0
    head = state.view.head if state.view is not None else None
    if head is not None and merged is not None and head == merged.snapshot:
        return merged.sequence
    return next((commit.version.sequence for commit in log.commits if commit.version.snapshot == head), 0)


def observe_lineage(
    reader: CatalogReader, tables: Iterable[TableName], models: Collection[Model]
) -> Mapping[str, TableFacts]:
    """Returns the facts of `tables` and of all tables from which their rows come, directly or not, by table name.

    `models` are all models of the project. Each table is observed once.
    """
    known = {str(model.table): model for model in models}
    facts: dict[str, TableFacts] = {}
    waiting = [str(table) for table in tables]
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        model = known.get(name)
        table = model.table if model is not None else parse_full_name(name)
        observed = None if table is None else observe_facts(reader, table, model)
        if observed is not None:
            facts[name] = observed
            above = set(observed.offsets or ()) - seen
            seen |= above
            waiting += above
    return facts
