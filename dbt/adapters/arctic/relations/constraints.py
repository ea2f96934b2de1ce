"""Constraints of dbt contracts: declares that arctic models enforce them, and warns of constraints without effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.events.types import ConstraintNotEnforced
from dbt_common.events.functions import warn_or_error

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
