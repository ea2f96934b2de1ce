"""Checks that clauses and expressions have no parts that can't be maintained incrementally."""

from __future__ import annotations

from collections.abc import Iterable, Set

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import walk_parts
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.functions import is_aggregate, is_generator
from arctic_runtime.model.step import Reason

_REASONS: dict[str, Reason] = {
    "limit": "LIMIT",
    "offset": "LIMIT",
    "fetch": "LIMIT",
    "sample": "NON_DETERMINISTIC",
}

_WRITTEN = {
    "sample": "TABLESAMPLE picks rows by chance",
    "version": "VERSION AS OF or TIMESTAMP AS OF on a table",
    "pivots": "PIVOT or UNPIVOT",
    "recursive": "WITH RECURSIVE",
}
"""Descriptions of parts of clauses in error messages, by the name of the argument of sqlglot's class."""


def check_clause_args(node: exp.Expr, known: Set[str]) -> None:
    """Raises NotMaintained if the syntax node of a clause has any argument besides those named in `known`.

    The check ensures that syntax which the analysis does not know is refused and not ignored.
    """
    for name, value in node.args.items():
        if value and name not in known:
            reason: Reason = _REASONS.get(name, "UNSUPPORTED")
            written = _WRITTEN.get(name, f"{node.key} with {name.rstrip('_').replace('_', ' ')}")
            raise NotMaintained(reason, written)


def check_of_one_row(expression: exp.Expr, clause: str) -> None:
    """Raises NotMaintained if an expression is not computed from one row alone.

    So aggregates, window functions and generators are refused, except inside subqueries. The message names `clause`,
    the clause that contains the expression.
    """
    for node in walk_outside_queries(expression):
        if is_aggregate(node) or isinstance(node, exp.Window) or is_generator(node):
            raise NotMaintained(
                "UNSUPPORTED", f"an aggregate, a window function or a generator such as explode in {clause}"
            )


def walk_outside_queries(expression: exp.Expr) -> Iterable[exp.Expr]:
    """Yields the nodes of an expression, with its subqueries themselves but not the nodes inside them."""
    return walk_parts(expression, whole=exp.Query)
