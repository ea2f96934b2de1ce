"""Performs operations on one model for hooks and `dbt run-operation`, given by its relation or its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jinja2
from dbt.adapters.base import BaseRelation

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table import Model
from dbt.adapters.arctic.materialize import maintain
from dbt.adapters.arctic.materialize.row_conditions import RowConditions
from dbt.adapters.arctic.project.compiled_project import build_compiled_model, build_relation

if TYPE_CHECKING:
    from arctic_runtime.operations.operation import Operation, OperationContext


def list_project_models(nodes: Iterable[Any]) -> dict[str, Model]:
    """Maps names to the arctic models of a project; their SQL is not compiled, since upkeep does not need it."""
    models = {str(node.name): _build_model(node) for node in nodes if maintain.is_arctic(node)}
    quarantines = (model.quarantine for model in models.values() if model.quarantine is not None)
    return models | {model.table.name: model for model in quarantines}


def get_model(models: dict[str, Model], wanted: BaseRelation | str) -> Model:
    """Returns the model with the name or relation `wanted`; raises ConfigError if there is none."""
    for name, model in models.items():
        if wanted in (name, model.table.name, str(model.table)) or _is_at(model, wanted):
            return model
    raise ConfigError(f"no arctic model is named {wanted}.", actual=", ".join(models) or "none")


def resolve_models(
    operation: Operation, wanted: BaseRelation | str, nodes: Iterable[Any], config: Any, manifest: Any
) -> tuple[Model, list[Model]]:
    """Returns the model `wanted` and all models of its project, with compiled queries if the operation needs them.

    Raises ConfigError if no model has that name or relation.
    """
    models = list_project_models(nodes)
    if operation.needs_queries:
        models = {name: with_query(model, config, manifest) for name, model in models.items()}
    model = get_model(models, wanted)
    return with_query(model, config, manifest) if operation.needs_query else model, list(models.values())


def with_query(model: Model, config: Any, manifest: Any) -> Model:
    """Returns the model with its compiled query; compiles the model's node if dbt has not done so yet."""
    from dbt.compilation import Compiler

    arctic = filter(maintain.is_arctic, manifest.nodes.values())
    node = next(node for node in arctic if maintain.get_node_table(node) in (model.table, model.tested_table))
    if not node.compiled:
        node = Compiler(config).compile_node(node, manifest, write=False)
    compiled = build_compiled_model(node, RowConditions(manifest))
    return next(part for part in compiled.parts if part.table == model.table)


def perform_on_model(
    operation: Operation, context: OperationContext, model: Model, arguments_given: Mapping[str, Any]
) -> list[str]:
    """Performs an operation on one model with the arguments of its macro; returns lines for people."""
    values = operation.read_values(_to_plain(arguments_given), known=operation.macro_arguments or ())
    return list(operation.run_operation(context, [model], values).lines)


def _to_plain(arguments_given: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a macro's arguments for an operation: relations become table names; omitted arguments are left out."""
    written = {name: value for name, value in arguments_given.items() if not isinstance(value, jinja2.Undefined)}
    return {
        name: maintain.get_table_name(value) if isinstance(value, BaseRelation) else value
        for name, value in written.items()
    }


def _build_model(node: Any) -> Model:
    return maintain.to_model(build_relation(node), node.to_dict(omit_none=True), node.raw_code)


def _is_at(model: Model, wanted: BaseRelation | str) -> bool:
    return not isinstance(wanted, str) and maintain.get_table_name(wanted) == model.table
