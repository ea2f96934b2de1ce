"""Adoption of tables by models: what it would do, its execution, and its undo, described for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from arctic_runtime.catalog.observation.plain_tables import observe_plain_table
from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.baseline import PlainTable
from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import Answer, OperationContext
from arctic_runtime.plan.refresh.adoption import check_adoptable, is_being_adopted


@dataclass(frozen=True)
class Candidate:
    """A model with a table of other writers, which it can adopt; `refusal` says why it can't, or is empty."""

    model: Model
    table: PlainTable
    refusal: str = ""


def list_candidates(context: OperationContext, models: Iterable[Model]) -> list[Candidate]:
    """Lists those of `models` whose name belongs to a table that no arctic model has made, or to half an adoption."""
    candidates = []
    for model in models:
        state = observe_model(context.reader, model)
        table = observe_plain_table(context.reader, model.table)
        if table is None or state.conflicting is None or not state.conflicting.is_plain:
            continue
        try:
            if not is_being_adopted(model, state):
                check_adoptable(model, state, table)
            candidates.append(Candidate(model, table))
        except ConfigError as error:
            candidates.append(Candidate(model, table, str(error)))
    return candidates


def plan_adoptions(candidates: Sequence[Candidate]) -> Answer:
    """Describes what an adoption would do to the tables of `candidates`; nothing is changed."""
    lines = [line for candidate in candidates for line in _describe_candidate(candidate)]
    if any(not candidate.refusal for candidate in candidates):
        lines.append("nothing was changed; add --yes to adopt, and then run the models")
    return Answer([_to_json(candidate) for candidate in candidates], tuple(lines), _has_refusal(candidates))


def perform_adoptions(context: OperationContext, candidates: Sequence[Candidate]) -> Answer:
    """Adopts the tables of `candidates` one by one; a table that can't be adopted stays as it is, with the reason."""
    from arctic_runtime.spark.maintenance.adoption import adopt_table

    def adopt_candidate(candidate: Candidate) -> Candidate:
        if candidate.refusal:
            return candidate
        try:
            adopt_table(context.open_table(candidate.model))
        except (ConfigError, DataError) as error:
            return replace(candidate, refusal=str(error))
        return candidate

    done = []
    for candidate in map(adopt_candidate, candidates):
        adopted = f"{candidate.model.table}: adopted with {candidate.table.rows:,} rows"
        context.progress(candidate.refusal or adopted)
        done.append(candidate)
    count = sum(not candidate.refusal for candidate in done)
    names = " ".join(candidate.model.table.name for candidate in done if not candidate.refusal)
    lines = (f"`dbt run -s {names}` publishes what differs from the queries",) if count else ()
    return Answer([_to_json(candidate) for candidate in done], lines, _has_refusal(done))


def undo_adoptions(context: OperationContext, models: Sequence[Model]) -> Answer:
    """Gives the tables of `models` back to their writers; raises ConfigError for a table that was not adopted."""
    from arctic_runtime.spark.maintenance.adoption import undo_adoption

    for model in models:
        baseline = undo_adoption(context.open_table(model))
        context.progress(f"{model.table}: set back to snapshot {baseline.snapshot}, and no arctic table any more")
    return Answer([str(model.table) for model in models], ())


def _describe_candidate(candidate: Candidate) -> list[str]:
    if candidate.refusal:
        return [candidate.refusal]
    table, model = candidate.table, candidate.model
    key = ", ".join(model.config.primary_key)
    line = f"{table.name}: {table.rows:,} rows in {table.bytes:,} bytes would be taken over as they are, with key {key}"
    wanted = model.config.format_version
    if table.format_version == wanted:
        return [line]
    upgrade = (
        f"{table.name}: its format version becomes {wanted}, which an undo does not take back; with "
        f"`format_version: {table.format_version}` it stays"
    )
    return [line, upgrade]


def _to_json(candidate: Candidate) -> dict[str, object]:
    return {
        "table": str(candidate.table.name),
        "rows": candidate.table.rows,
        "bytes": candidate.table.bytes,
        "format_version": candidate.table.format_version,
        "primary_key": list(candidate.model.config.primary_key),
        "refusal": candidate.refusal or None,
    }


def _has_refusal(candidates: Iterable[Candidate]) -> bool:
    return any(candidate.refusal for candidate in candidates)
