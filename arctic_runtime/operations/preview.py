"""The operation that tells what an edit of models will cost before it is merged."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.arguments import read_flag
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values
from arctic_runtime.operations.preview_report import describe_preview, describe_preview_as_markdown, to_json
from arctic_runtime.plan.preview.preview import ModelPreview, Preview
from arctic_runtime.plan.preview.preview_limits import read_preview_limits
from arctic_runtime.plan.preview.renamed_model import move_model

if TYPE_CHECKING:
    from arctic_runtime.operations.preview_walk import PreviewWalk


@dataclass(frozen=True)
class _Environment:
    """The tables of another environment, in which the models are planned; `tables` maps own tables to them.

    None for the environment of the project's own target.
    """

    tables: Mapping[TableName, TableName] | None = None

    def move_models(self, models: Sequence[Model]) -> list[Model]:
        return [model if self.tables is None else move_model(model, self.tables) for model in models]

    def find_table(self, table: TableName) -> TableName:
        return table if self.tables is None else self.tables.get(table, table)

    def list_absent(self, models: Sequence[Model]) -> set[TableName]:
        """Returns the tables of models that the environment does not have."""
        return set() if self.tables is None else {model.table for model in models if model.table not in self.tables}


def _preview_edits(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    from arctic_runtime.operations.preview_walk import PreviewWalk

    known = [model for model in context.models if model.sql]
    is_all = len(models) == len(context.models)
    named = [] if is_all else _check_queries(models)
    environment = _find_environment(context, values["state"])
    walk = PreviewWalk(context.reader, environment.move_models(known), environment.list_absent(known))
    previews = walk.preview_models([environment.find_table(model.table) for model in named])
    preview = _count_below(context, environment, walk, previews)
    preview = replace(preview, untouched=len(known) - len(previews))
    breaches = [limit.text for limit in values["fail_on"] or () if limit.is_exceeded(preview)]
    describe = describe_preview_as_markdown if values["markdown"] else describe_preview
    lines = (*describe(preview), *([f"more than allowed: {', '.join(breaches)}"] if breaches else []))
    return Answer({**to_json(preview), "breaches": breaches}, lines, bool(breaches) or preview.is_refused)


def _check_queries(models: Sequence[Model]) -> Sequence[Model]:
    """Returns the models; raises ConfigError if one of them has no query."""
    for model in models:
        if not model.sql:
            raise ConfigError(
                f"{model.table} has no query whose next run could be previewed.",
                expected="a model",
                actual="an ingested table" if model.ingested_from is not None else "a table of a source",
                fix="name models that read it",
            )
    return models


def _find_environment(context: OperationContext, state: str | None) -> _Environment:
    if state is None:
        return _Environment()
    others = context.find_counterparts(state, None)
    return _Environment({own: other.table for own, other in others.items()})


def _count_below(
    context: OperationContext, environment: _Environment, walk: PreviewWalk, previews: Sequence[ModelPreview]
) -> Preview:
    """Adds to each preview the numbers of tables and of readers that its changes may reach, and returns all of them."""
    spared = {model.table for model in previews if not model.has_cost}
    own = {environment.find_table(model.table): model.table for model in context.models}
    counted, tables, readers = [], set[TableName](), set[TableName]()
    for model in previews:
        if not model.amounts.rows_written.high:
            counted.append(model)
            continue
        below = walk.list_below(model.table)
        below |= {environment.find_table(table) for table in context.list_descendants([own[model.table]])}
        below -= spared
        foreign = _list_readers(walk, {model.table, *below}) - below
        counted.append(replace(model, tables_below=len(below), readers_below=len(foreign)))
        tables, readers = tables | below, readers | foreign
    return Preview(tuple(counted), 0, len(tables), len(readers))


def _list_readers(walk: PreviewWalk, tables: Collection[TableName]) -> set[TableName]:
    return {reader for table in tables for reader in walk.list_foreign_readers(table)}


PREVIEW = Operation(
    name="preview",
    description="show which models an edit touches, also below, and what they will cost, before anything is run",
    tables="any",
    perform=_preview_edits,
    needs_spark=False,
    changes=False,
    needs_queries=True,
    tables_help="the models that are edited; all below them count too (default: all edited models)",
    arguments=(
        Argument(
            "state",
            "price the edit in the environment whose manifest.json is in this folder, as for dbt's `--state`",
            metavar="PATH",
            is_local=True,
        ),
        Argument(
            "fail_on",
            "exit with 1 if all runs together cost more than this, such as `bytes>1TB,seconds>3600,models>20`",
            read_preview_limits,
            metavar="LIMITS",
        ),
        Argument("markdown", "write Markdown, for a comment on a pull request", read_flag, "boolean", False),
    ),
)
