"""The operation by which tables take over what clones of them have computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.clones import observe_computed
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.clone import ObservedClone
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations import inspect
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values
from arctic_runtime.plan.refresh.request import Request

if TYPE_CHECKING:
    from arctic_runtime.refresh_planner import Outcome, RefreshPlanner


@dataclass(frozen=True)
class _Pair:
    """A table, and the clone of it in the other environment."""

    model: Model
    clone: ObservedClone


@dataclass
class _Report:
    """What was done with each table: numbers of its change rows by action, or why it has not taken over its clone."""

    rows: dict[str, Mapping[str, int]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def to_answer(self) -> Answer:
        return Answer({"promoted": self.rows, "left": self.left}, tuple(self.lines or ["no clones of these tables"]))


def _promote_clones(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    from arctic_runtime.spark.refresh.promote import plan_promoted_run
    from arctic_runtime.spark.refresh.run import Refresh

    report = _Report()
    for pair in _list_pairs(context, models, values):
        table, clone = str(pair.model.table), pair.clone.clone.table
        planner = _build_planner(context, pair)
        try:
            planned = plan_promoted_run(planner, context.spark)
        except ConfigError as refused:
            _note_refusal(report, context, models, table, refused)
            continue
        if planned is None:
            _note_nothing(report, table, clone)
            continue
        _note_outcome(report, table, clone, Refresh(planner, context.spark).run_refresh(planned))
    return report.to_answer()


def _note_outcome(report: _Report, table: str, clone: TableName, outcome: Outcome) -> None:
    rows = inspect.format_row_counts(outcome.rows)
    if outcome.reason == "PROMOTED":
        report.rows[table] = outcome.rows
        report.lines.append(f"{table}: took over {clone}, {rows}")
    else:
        report.left[table] = outcome.because
        report.lines.append(f"{table}: computed its query instead, {rows}: {outcome.because}")


def _plan_promotions(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    report, above = _Report(), set[str]()
    for pair in _list_pairs(context, models, values):
        table, clone = str(pair.model.table), pair.clone.clone.table
        if waiting := above.intersection(pair.clone.upstreams):
            above.add(str(clone))
            report.lines.append(f"{table}: would be decided once {', '.join(sorted(waiting))} is taken over")
            continue
        try:
            planned = _build_planner(context, pair).plan_refresh()
        except ConfigError as refused:
            _note_refusal(report, context, models, table, refused)
            continue
        promotion = planned.decision.promotion
        if promotion is None:
            _note_nothing(report, table, clone)
            continue
        above.add(str(clone))
        report.lines += [f"{table}: would take over {clone}", *(f"  {line}" for line in promotion.describe_plan())]
    answer = report.to_answer()
    return replace(answer, lines=(*answer.lines, "nothing was written"))


def _build_planner(context: OperationContext, pair: _Pair) -> RefreshPlanner:
    from arctic_runtime.refresh_planner import RefreshPlanner

    return RefreshPlanner(pair.model, context.reader, Request(clone=pair.clone))


def _note_nothing(report: _Report, table: str, clone: TableName) -> None:
    report.left[table] = f"{clone} has nothing that a run would not follow by itself"
    report.lines.append(f"{table}: nothing to take over from {clone}")


def _note_refusal(
    report: _Report, context: OperationContext, models: Sequence[Model], table: str, refused: ConfigError
) -> None:
    """Notes why a table can't take over its clone; raises the error if the user has named the table."""
    if _are_named(context, models):
        raise refused
    report.left[table] = str(refused)
    report.lines.append(str(refused).splitlines()[0])


def _list_pairs(context: OperationContext, models: Sequence[Model], values: Values) -> list[_Pair]:
    """Lists those of the tables that have clones in the other environment, upstreams before models that read them.

    Raises ConfigError if the user has named tables that have none, or if the other environment is not named.
    """
    tables = _map_tables(context, values)
    others = {own: theirs for theirs, own in tables.items()}
    pairs = {
        str(others[part.table]): _Pair(part, clone)
        for model in models
        for part in model.parts
        if part.table in others
        and (clone := observe_computed(context.reader, replace(part, table=others[part.table]), tables)) is not None
    }
    if not pairs and _are_named(context, models):
        raise ConfigError(
            "There is nothing to take over.",
            expected="clones of these tables in the other environment, which `dbt clone` makes",
            actual=f"none of {', '.join(str(model.table) for model in models)}",
            fix="name the environment in which the models were cloned and run, by `--from` or `--state`",
        )
    graph = {name: [above for above in pair.clone.upstreams if above in pairs] for name, pair in pairs.items()}
    return [pairs[name] for name in TopologicalSorter(graph).static_order()]


def _are_named(context: OperationContext, models: Sequence[Model]) -> bool:
    """Whether the user has chosen these models among those of the project."""
    return len(models) == 1 or len(models) < len(context.models)


def _map_tables(context: OperationContext, values: Values) -> dict[TableName, TableName]:
    """Maps the names of tables in the other environment to those here."""
    schema = values["from_schema"]
    if schema is not None:
        return {replace(table, schema=schema): table for table in _list_tables(context.models)}
    if values["state"] is None and values["from_target"] is None:
        raise ConfigError(
            "The environment of the clones is missing.",
            expected="one of `--from TARGET`, `--state PATH` and `--schema SCHEMA`",
            actual="none",
            fix="name the target in which the clones were made and run",
        )
    counterparts = context.find_counterparts(values["state"], values["from_target"])
    return {counterpart.table: own for own, counterpart in counterparts.items()}


def _list_tables(models: Sequence[Model]) -> Iterator[TableName]:
    for model in models:
        yield from (part.table for part in model.parts)


_ENVIRONMENT = "environment"

PROMOTE = Operation(
    name="promote",
    needs_admin=True,
    description="take over what clones have computed, for models whose query is now that of their clone",
    tables="any",
    perform=_promote_clones,
    plan=_plan_promotions,
    needs_spark=True,
    changes=True,
    needs_query=True,
    arguments=(
        Argument(
            "from_target",
            "the target of the profile in which the clones were made and run",
            option="--from",
            metavar="TARGET",
            exclusive_group=_ENVIRONMENT,
            is_local=True,
        ),
        Argument(
            "state",
            "the folder with the manifest.json of the environment of the clones, as for `dbt clone`",
            metavar="PATH",
            exclusive_group=_ENVIRONMENT,
            is_local=True,
        ),
        Argument(
            "from_schema",
            "the schema of the clones, which have the names of their origins",
            option="--schema",
            metavar="SCHEMA",
            exclusive_group=_ENVIRONMENT,
        ),
    ),
    macro_arguments=("from_schema",),
)
