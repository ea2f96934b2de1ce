"""Observes the facts from which the freshness of a table is computed: commits, offsets, and progress of ingestion."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from arctic_runtime.catalog.observation.tables import observe_model, observe_progress, observe_source
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import find_last_run, get_offsets, is_run
from arctic_runtime.model.sources.freshness import TableFacts, to_origin_status
from arctic_runtime.model.sources.ingestion import Progress, SourceProgress
from arctic_runtime.model.state import ChangeTableState
from arctic_runtime.model.table import Model


def observe_facts(reader: CatalogReader, name: TableName, model: Model | None) -> TableFacts | None:
    """Returns the facts about the table `name` for its freshness; None if there is no such table.

    `model` is the table's model. If it is None or a landing table, other programs write the table.
    """
    if model is None or model.is_landing:
        source = observe_source(reader, name)
        return None if source is None else TableFacts(source.version.table, source.commits)
    log = observe_model(reader, model).log
    return None if log is None else to_facts(reader, model, log)


def to_facts(reader: CatalogReader, model: Model, log: ChangeTableState) -> TableFacts:
    """Builds the facts of a model's table; `log` is the state of the table that its runs commit to.

    For an ingested table, it reads the progress of the source from the catalog.
    """
    commits = tuple(commit for commit in log.commits if commit.rows or is_run(commit))
    lag = float(model.config.target_lag)
    if model.ingested_from is None:
        return TableFacts(log.uuid, commits, get_offsets(find_last_run(log)), None, lag)
    if model.source is None:
        return TableFacts(log.uuid, commits, None, None, lag)
    known = observe_progress(reader, model.source.dead_letters) or SourceProgress(Progress(), 0)
    return TableFacts(log.uuid, commits, None, to_origin_status(model.source, model.ingested_from, known, commits), lag)


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
        table = model.table if model is not None else _to_name(name)
        observed = None if table is None else observe_facts(reader, table, model)
        if observed is not None:
            facts[name] = observed
            above = set(observed.offsets or ()) - seen
            seen |= above
            waiting += above
    return facts


def _to_name(text: str) -> TableName | None:
    """Parses a table's name as stored in offsets; None if it is ambiguous, because a part of it contains dots."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        return TableName(*parts)
    except ConfigError:
        return None
