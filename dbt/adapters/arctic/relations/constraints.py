"""Constraints of dbt contracts: arctic models enforce them, other queries check them, and some have no effect.

Iceberg stores only `not null`, so the others become checks in a model's query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.events.types import ConstraintNotEnforced
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.events.functions import warn_or_error

from arctic_runtime.spark.engine.statement import quote_text
from dbt.adapters.arctic.relations.identifiers import quote_identifier

SUPPORT: Final = {
    ConstraintType.check: ConstraintSupport.ENFORCED,
    ConstraintType.not_null: ConstraintSupport.ENFORCED,
    ConstraintType.unique: ConstraintSupport.NOT_ENFORCED,
    ConstraintType.primary_key: ConstraintSupport.NOT_ENFORCED,
    ConstraintType.foreign_key: ConstraintSupport.NOT_ENFORCED,
}
"""Constraints that models of dbt's own materializations enforce."""

_NOT_ENFORCED = ("unique", "foreign_key")


def declare_enforced(materialization: str) -> None:
    """Makes dbt treat a materialization as one that enforces constraints; dbt itself has a fixed list of these.

    Otherwise dbt would warn that constraints are ignored, and leave them out of its check for breaking changes.
    """
    from dbt.contracts.graph.nodes import ModelNode

    known = ModelNode.materialization_enforces_constraints
    if getattr(known, "arctic", False):
        return

    class Enforcing(property):
        arctic = True

    def is_enforced(node: Any) -> bool:
        return bool(node.config.materialized == materialization or known.__get__(node))

    ModelNode.materialization_enforces_constraints = Enforcing(is_enforced)  # type: ignore[method-assign, assignment]


def warn_of_unenforced(constraints: list[Mapping[str, Any]]) -> None:
    """Warns of `unique` and `foreign_key` constraints, which have no effect, unless `warn_unenforced` is false."""
    for constraint in constraints:
        kind = str(getattr(constraint["type"], "value", constraint["type"]))
        if kind in _NOT_ENFORCED and constraint.get("warn_unenforced", True):
            warn_or_error(ConstraintNotEnforced(constraint=kind, adapter="arctic"))


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
