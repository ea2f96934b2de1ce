"""Finds columns and expressions that are proven to be never null."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.aggregate_functions import find_aggregate_function
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    WindowColumns,
    list_columns,
)
from arctic_runtime.ivm.rewrite.predicate_pushdown import split_conjuncts

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like)
_COUNTING = (exp.RowNumber, exp.Rank, exp.DenseRank)


def find_never_null(node: Node, stored: Set[str]) -> frozenset[str]:  # noqa: C901 - one case per operator
    """Finds the columns of an operator's result that are never null.

    `stored` are the columns of its scans that are known to be never null.
    """

    def find_in_child(child: Node) -> frozenset[str]:
        return find_never_null(child, stored)

    match node:
        case Scan():
            return frozenset(list_columns(node)) & stored
        case SpoolScan() | OneRow():
            return frozenset()
        case Projection(child=child, expressions=expressions):
            return _find_never_null_values(expressions, find_in_child(child))
        case Filter(child=child, condition=condition) | SemiJoin(kind="semi", left=child, on=condition):
            return find_in_child(child) | (_find_required_not_null(condition) & set(list_columns(child)))
        case Join(kind="full"):
            return frozenset()
        case Join(kind="left", left=left) | SemiJoin(left=left):
            return find_in_child(left)
        case Join(left=left, right=right, on=on):
            return find_in_child(left) | find_in_child(right) | (_find_required_not_null(on) & set(list_columns(node)))
        case Aggregate(child=child, keys=keys, aggregates=aggregates):
            return (find_in_child(child) & set(keys)) | _find_never_null_values(aggregates, frozenset())
        case WindowColumns(child=child, expressions=expressions):
            return find_in_child(child) | _find_never_null_values(
                [(name, value.this) for name, value in expressions], frozenset()
            )
        case Explode(child=child) | Distinct(child=child):
            return find_in_child(child)
        case UnionAll(inputs=inputs, names=names):
            return _intersect_by_position(inputs, names, find_in_child)
        case SetOperation(left=left, names=names):
            return _intersect_by_position([left], names, find_in_child)
        case _:
            assert_never(node)


def is_never_null(value: exp.Expr, known: Set[str]) -> bool:
    """Whether an expression is never null, if the columns `known` are never null."""
    match value:
        case exp.Paren():
            return is_never_null(value.this, known)
        case exp.Column():
            return value.name in known
        case exp.Coalesce():
            return any(is_never_null(part, known) for part in (value.this, *value.expressions))
    function = find_aggregate_function(value)
    return function.is_never_null if function is not None else isinstance(value, (exp.Literal, exp.Boolean, *_COUNTING))


def _find_never_null_values(expressions: Sequence[tuple[str, exp.Expr]], known: Set[str]) -> frozenset[str]:
    return frozenset(name for name, value in expressions if is_never_null(value, known))


def _find_required_not_null(condition: exp.Expr | None) -> frozenset[str]:
    """Finds the columns that can't be null in rows for which a condition is true."""
    names_required: set[str] = set()
    for part in split_conjuncts(condition):
        if isinstance(part, _COMPARISONS):
            names_required.update(side.name for side in (part.this, part.expression) if isinstance(side, exp.Column))
        if isinstance(part, exp.Not) and isinstance(part.this.unnest(), exp.Is):
            test = part.this.unnest()
            is_column = isinstance(test.this, exp.Column) and isinstance(test.expression, exp.Null)
            names_required.update([test.this.name] if is_column else [])
    return frozenset(names_required)


def _intersect_by_position(
    inputs: Sequence[Node], names: Sequence[str], find_in_input: Callable[[Node], frozenset[str]]
) -> frozenset[str]:
    solid = [{place for place, name in enumerate(list_columns(part)) if name in find_in_input(part)} for part in inputs]
    return frozenset(names[place] for place in set.intersection(*solid))
