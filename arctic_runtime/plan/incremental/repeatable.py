"""Trees whose rows are the same every time they are computed, in whatever order the engine meets what it reads.

`first` of a group, or `row_number` over ties, has many answers that are all right. Whoever adds what came to what is
kept and subtracts what went needs one: what is subtracted has to be what was added. For the same reason no text may
be compared by a collation, where a group is shown by any one of its texts.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from arctic_runtime.plan.incremental.exact import is_averaged_exactly, is_exact
from arctic_runtime.plan.incremental.inferred import type_of
from arctic_runtime.plan.incremental.render import query
from arctic_runtime.plan.incremental.tree import Aggregate, Node, Window, columns, walk
from arctic_runtime.plan.incremental.unique import is_unique

_OF_ANY_TYPE = (exp.Count, exp.CountIf, exp.LogicalAnd, exp.LogicalOr)
_RANKS = (exp.Rank, exp.DenseRank)
_PLACES = (exp.RowNumber, exp.Lag, exp.Lead)
_MANY_ZEROS = ("float", "double", "real")


def is_repeatable(tree: Node, types: Mapping[str, str]) -> bool:
    """Whether the order of what is read can't matter to a tree's rows; False where that is not proven."""
    return not _is_collated(tree, types) and all(_has_one_answer(node, types) for node in walk(tree))


def _is_collated(tree: Node, types: Mapping[str, str]) -> bool:
    names = (name for node in walk(tree) for name in columns(node))
    return any("collate" in types.get(name, "").lower() for name in names) or any(map(_collates, query(tree).walk()))


def _collates(part: exp.Expr) -> bool:
    if isinstance(part, exp.DataType):
        return "collate" in part.sql(dialect="spark").lower()
    return isinstance(part, exp.Collate) or (isinstance(part, exp.Anonymous) and part.name.upper() == "COLLATE")


def _has_one_answer(node: Node, types: Mapping[str, str]) -> bool:
    match node:
        case Aggregate(aggregates=aggregates):
            return all(_is_of_set(call, types) for _, call in aggregates)
        case Window(expressions=expressions):
            return all(isinstance(over, exp.Window) and _is_placed(node, over, types) for _, over in expressions)
        case _:
            return True


def _is_of_set(call: exp.Expr, types: Mapping[str, str]) -> bool:
    """Whether an aggregate depends on which rows there are, but not on their order."""
    if isinstance(call, exp.Filter):
        return _is_of_set(call.this, types)
    of_type = type_of(call.this, types) if isinstance(call.this, exp.Expr) else None
    match call:
        case exp.Sum():
            return is_exact(call.this, types) is True
        case exp.Avg():
            return is_averaged_exactly(of_type)
        case exp.Min() | exp.Max():
            return of_type is not None and not any(kind in of_type for kind in _MANY_ZEROS)
    return isinstance(call, _OF_ANY_TYPE)


def _is_placed(node: Window, over: exp.Window, types: Mapping[str, str]) -> bool:
    """Whether a window's value follows from what its partition holds; ties matter to a row's place, not to its rank."""
    if isinstance(over.this, _RANKS):
        return True
    order = over.args.get("order")
    asked = [part.this.unnest() for part in order.expressions] if order else []
    names = {part.name for part in asked if isinstance(part, exp.Column)}
    has_no_ties = is_unique(node.child, {*node.partition, *names})
    if isinstance(over.this, _PLACES):
        return has_no_ties
    return _is_of_set(over.this, types) and (has_no_ties or over.args.get("spec") is None)
