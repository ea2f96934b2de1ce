"""Writes a contract's constraints as checks into the model's query, since Iceberg stores only `not null`."""

from __future__ import annotations

from typing import Any

from arctic_runtime.spark.engine.statement import quote_text
from dbt.adapters.arctic.relations.identifiers import quote_identifier


def select_list(model: dict[str, Any]) -> str:
    """Returns the select list of the contract's columns, with expressions that raise an error for invalid values.

    Reading a row that breaks a `not_null` or `check` constraint raises the error.
    """
    columns = list(model["columns"].values())
    conditions = [c["expression"] for c in _list_constraints([model, *columns], "check") if c.get("expression")]
    selected = [_write_not_null(column, model["name"]) for column in columns]
    return ", ".join(
        _write_checked(expression, conditions if index == 0 else [], model["name"])
        + " as "
        + quote_identifier(column["name"])
        for index, (expression, column) in enumerate(zip(selected, columns, strict=True))
    )


def _list_constraints(owners: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [c for owner in owners for c in owner.get("constraints") or [] if str(c["type"]) == kind]


def _write_not_null(column: dict[str, Any], model: str) -> str:
    name = quote_identifier(column["name"])
    if not _list_constraints([column], "not_null"):
        return name
    message = f"{model}: column {column['name']} has a null, and its contract says not_null"
    return "coalesce(" + name + ", raise_error(" + quote_text(message) + "))"


def _write_checked(expression: str, conditions: list[str], model: str) -> str:
    for condition in conditions:
        message = quote_text(f"{model}: a row breaks the check constraint {condition}")
        expression = "case when not (" + condition + ") then raise_error(" + message + ") else " + expression + " end"
    return expression
