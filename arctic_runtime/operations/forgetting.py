"""The operation that erases rows from a table, from its history, and from all tables that are computed from it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from arctic_runtime.model.forgetting import Forget, describe_certificate, describe_forget_plan
from arctic_runtime.model.table import Model
from arctic_runtime.operations.arguments import read_flag, read_texts
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Values, on_one

if TYPE_CHECKING:
    from arctic_runtime.spark.forget.forgetting import Forgetting


def _forget_rows(context: OperationContext, model: Model, values: Values) -> Answer:
    certificate = _build_forgetting(context, model, values).run_forget()
    data = {**asdict(certificate), "is_clean": certificate.is_clean}
    return Answer(data, tuple(describe_certificate(certificate)), differs=not certificate.is_clean)


def _plan_forget(context: OperationContext, model: Model, values: Values) -> Answer:
    plan = _build_forgetting(context, model, values).plan_forget()
    warning = "nothing was forgotten: it can't be undone; add --yes to do it"
    return Answer(asdict(plan), (*describe_forget_plan(plan), *([warning] if plan.tables else [])))


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
