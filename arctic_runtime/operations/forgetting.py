"""The operation that erases rows from a table, from its history, and from all tables that are computed from it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.tables import observe_own
from arctic_runtime.model.forgetting import (
    Forget,
    describe_certificate,
    describe_forget_plan,
    join_certificates,
    join_plans,
)
from arctic_runtime.model.table import Model
from arctic_runtime.operations.arguments import read_flag, read_texts
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values, on_one

if TYPE_CHECKING:
    from arctic_runtime.spark.forget.forgetting import Forgetting


def _forget_rows(context: OperationContext, model: Model, values: Values) -> Answer:
    done = [_build_forgetting(context, part, values).run_forget() for part in _list_built(context, model)]
    certificate = join_certificates(done)
    data = {**asdict(certificate), "is_clean": certificate.is_clean}
    return Answer(data, tuple(describe_certificate(certificate)), differs=not certificate.is_clean)


def _plan_forget(context: OperationContext, model: Model, values: Values) -> Answer:
    plans = [_build_forgetting(context, part, values).plan_forget() for part in _list_built(context, model)]
    plan = join_plans(plans)
    warning = "nothing was forgotten: it can't be undone; add --yes to do it"
    return Answer(asdict(plan), (*describe_forget_plan(plan), *([warning] if plan.tables else [])))


def _list_built(context: OperationContext, model: Model) -> list[Model]:
    """Lists the model, and before it its quarantine if this is built, since a row may have been in either."""
    return [part for part in model.parts if part == model or observe_own(context.reader, part)]


def _build_forgetting(context: OperationContext, model: Model, values: Values) -> Forgetting:
    from arctic_runtime.spark.forget.forgetting import Forgetting

    request = Forget(values["key"] or (), values["where"], values["drop_savepoints"])
    return Forgetting(model, context.models, context.reader, context.spark, request, context.progress)


FORGET = Operation(
    name="forget",
    needs_admin=True,
    description="erase rows of a table and of all that is made of it, also from their history",
    tables="one",
    perform=on_one(_forget_rows),
    plan=on_one(_plan_forget),
    needs_spark=True,
    plan_needs_spark=True,
    changes=True,
    needs_confirmation=True,
    needs_key=True,
    needs_queries=True,
    arguments=(
        Argument(
            "key",
            "keys of rows, each by one value for each column of the primary key",
            read_texts,
            "array",
            metavar="VALUE",
            exclusive_group="rows",
        ),
        Argument(
            "where", "a SQL predicate: rows that it is or was true for", metavar="PREDICATE", exclusive_group="rows"
        ),
        Argument(
            "drop_savepoints", "drop savepoints that hold such rows, which else refuse it", read_flag, "boolean", False
        ),
    ),
    macro_arguments=("key", "where", "drop_savepoints"),
)
