"""Columns that are proven to be never null."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    Window,
    columns,
)
from arctic_runtime.ivm.rewrite.join_predicates import conjuncts

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like)
_COUNTING = (exp.Count, exp.RowNumber, exp.Rank, exp.DenseRank)


def never_null(node: Node, stored: Set[str]) -> frozenset[str]:  # noqa: C901 - one case per operator
    """The columns of a node that hold no null; `stored` are those of its sources."""

    def of(child: Node) -> frozenset[str]:
        return never_null(child, stored)

    match node:
        case Scan():
            return frozenset(columns(node)) & stored
        case SpoolScan() | OneRow():
            return frozenset()
        case Project(child=child, expressions=expressions):
            return _values(expressions, of(child))
        case Filter(child=child, condition=condition) | SemiJoin(kind="semi", left=child, on=condition):
            return of(child) | (_asked_for(condition) & set(columns(child)))
        case Join(kind="full"):
            return frozenset()
        case Join(kind="left", left=left) | SemiJoin(left=left):
            return of(left)
        case Join(left=left, right=right, on=on):
            return of(left) | of(right) | (_asked_for(on) & set(columns(node)))
        case Aggregate(child=child, keys=keys, aggregates=aggregates):
            return (of(child) & set(keys)) | _values(aggregates, frozenset())
        case Window(child=child, expressions=expressions):
            return of(child) | _values([(name, value.this) for name, value in expressions], frozenset())
        case Explode(child=child) | Distinct(child=child):
            return of(child)
        case UnionAll(inputs=inputs, names=names):
            return _by_place(inputs, names, of)
        case SetOperation(left=left, names=names):
            return _by_place([left], names, of)
        case _:
            assert_never(node)


def is_never_null(value: exp.Expr, known: Set[str]) -> bool:
    """Whether an expression over columns that hold no null is one that can't be null."""
    match value:
        case exp.Paren():
            return is_never_null(value.this, known)
        case exp.Column():
            return value.name in known
        case exp.Coalesce():
            return any(is_never_null(part, known) for part in (value.this, *value.expressions))
    return isinstance(value, (exp.Literal, exp.Boolean, *_COUNTING))


def _values(expressions: Sequence[tuple[str, exp.Expr]], known: Set[str]) -> frozenset[str]:
    return frozenset(name for name, value in expressions if is_never_null(value, known))


def _asked_for(condition: exp.Expr | None) -> frozenset[str]:
    """Columns that are not null where a condition is true."""
    found: set[str] = set()
    for part in conjuncts(condition):
        if isinstance(part, _COMPARISONS):
            found.update(side.name for side in (part.this, part.expression) if isinstance(side, exp.Column))
        if isinstance(part, exp.Not) and isinstance(part.this.unnest(), exp.Is):
            test = part.this.unnest()
            is_column = isinstance(test.this, exp.Column) and isinstance(test.expression, exp.Null)
            found.update([test.this.name] if is_column else [])
    return frozenset(found)


def _by_place(inputs: Sequence[Node], names: Sequence[str], of: Callable[[Node], frozenset[str]]) -> frozenset[str]:
    solid = [{place for place, name in enumerate(columns(part)) if name in of(part)} for part in inputs]
    return frozenset(names[place] for place in set.intersection(*solid))
