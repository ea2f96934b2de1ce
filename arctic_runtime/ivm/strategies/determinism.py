"""Checks whether a tree is deterministic, and finds operators all of whose rows any change of their inputs can affect.

`first` of a group, or `row_number` over ties, has many correct values. A plan that adds rows to a stored result and
later subtracts them needs a single one: the subtracted rows must equal those that were added. For the same reason a
tree with a collation is not deterministic: any of the texts that are equal by a collation may represent their group.

A deterministic tree returns the same rows in whatever order Spark reads its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.aggregate_functions import (
    Answers,
    OneAnswerIf,
    find_aggregate_function,
    get_first_argument,
)
from arctic_runtime.ivm.algebra.expressions import walk_parts
from arctic_runtime.ivm.algebra.inferred_types import is_averaged_exactly, is_exact, type_of
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Join,
    Node,
    SemiJoin,
    WindowColumns,
    list_children,
    list_columns,
    list_expressions,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import has_single_row, is_unique
from arctic_runtime.ivm.frontend.clauses.limits import is_number_of_limit
from arctic_runtime.ivm.frontend.type_coercion import has_collation
from arctic_runtime.ivm.rules.partners import has_link
from arctic_runtime.ivm.rules.terms import has_changed
from arctic_runtime.model.names import TableName

_RANKS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_PLACES = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile, exp.NthValue)
_MANY_ZEROS = ("float", "double", "real")


def is_deterministic(tree: Node, types: Mapping[str, str]) -> bool:
    """Whether the rows of a tree do not depend on the order in which Spark reads rows; False if this is not proven."""
    return not _is_collated(tree, types) and all(_has_one_answer(node, types) for node in walk_tree(tree))


def classify_aggregate(call: exp.Expr, node: Aggregate, types: Mapping[str, str]) -> Answers:
    """Returns the number of results that an aggregate call of `node` can have over the same rows: one, near or many.

    `max_by` and similar functions have one result if their second argument is proven to have no ties in a group.
    """
    if isinstance(call, exp.Filter):
        return classify_aggregate(call.this, node, types)
    function = find_aggregate_function(call)
    if function is not None and function.one_answer_if == "unique_second_argument" and len(call.expressions) == 2:
        by = call.expressions[1].unnest()
        return "one" if isinstance(by, exp.Column) and is_unique(node.child, {*node.keys, by.name}) else "many"
    return _classify_set_aggregate(call, types)


def classify_window(over: exp.Expr, node: WindowColumns, types: Mapping[str, str]) -> Answers:
    """Returns the number of results that a window function of `node` can have over the same rows: one, near or many.

    Ties in ORDER BY change the result of `row_number`, but not that of `rank`.
    """
    if not isinstance(over, exp.Window):
        return "many"
    if isinstance(over.this, _RANKS):
        return "one"
    order = over.args.get("order")
    asked = [part.this.unnest() for part in order.expressions] if order else []
    names = {part.name for part in asked if isinstance(part, exp.Column)}
    has_no_ties = is_unique(node.child, {*node.partition, *names})
    call = over.this.this if isinstance(over.this, exp.IgnoreNulls | exp.RespectNulls) else over.this
    if isinstance(call, _PLACES) or _is_ordered_by_window(call):
        return "one" if has_no_ties else "many"
    return _classify_set_aggregate(over.this, types) if has_no_ties or over.args.get("spec") is None else "many"


def _is_ordered_by_window(call: exp.Expr) -> bool:
    function = find_aggregate_function(call)
    return function is not None and function.one_answer_if == "unique_window_order"


def _is_collated(tree: Node, types: Mapping[str, str]) -> bool:
    names = (name for node in walk_tree(tree) for name in list_columns(node))
    values = (value for node in walk_tree(tree) for value in list_expressions(node))
    return any("collate" in types.get(name, "").lower() for name in names) or any(
        has_collation(part) for value in values for part in walk_parts(value)
    )


def _has_one_answer(node: Node, types: Mapping[str, str]) -> bool:
    match node:
        case Aggregate(aggregates=aggregates):
            return all(classify_aggregate(call, node, types) == "one" for _, call in aggregates)
        case WindowColumns(expressions=expressions):
            return all(classify_window(over, node, types) == "one" for _, over in expressions)
        case _:
            return True


def _classify_set_aggregate(call: exp.Expr, types: Mapping[str, str]) -> Answers:
    """Returns the number of results that an aggregate can have over the same rows, read in any order."""
    if isinstance(call, exp.Filter):
        return _classify_set_aggregate(call.this, types)
    function = find_aggregate_function(call)
    if function is None:
        return "many"
    return "one" if _is_fulfilled(function.one_answer_if, get_first_argument(call), types) else function.answers


def _is_fulfilled(condition: OneAnswerIf | None, argument: exp.Expr | None, types: Mapping[str, str]) -> bool:
    """Whether `argument`, the first of an aggregate call, fulfils `condition`, so that the call has only one result.

    False for conditions on the order of rows, which the callers check, and if there is no condition or no argument.
    """
    if condition is None or argument is None:
        return False
    of_type = type_of(argument, types)
    match condition:
        case "exact_argument":
            return is_exact(argument, types) is True
        case "exactly_averaged_type":
            return is_averaged_exactly(of_type)
        case "type_with_one_zero":
            return of_type is not None and not any(kind in of_type for kind in _MANY_ZEROS)
        case "unique_second_argument" | "unique_window_order":
            return False
        case _:
            assert_never(condition)


_NO_LINK = "what changed is joined, or asked for by IN or EXISTS, without an equality of columns"
_UNSURE = "a single row that others are compared to has changed, and may not be the same when it is computed again"


def walk_changing(node: Node, changed: frozenset[TableName]) -> Iterator[Node]:
    """Yields each operator with changes that a plan has to derive, from the top down.

    Operators on the right side of a semi-join with a single row, as in `amount > (select avg(amount) …)`, are left out,
    because plans compute that row in full, from the old and from the new sources.
    """
    if not has_changed(node, changed):
        return
    yield node
    is_judged = isinstance(node, SemiJoin) and has_single_row(node)
    for child in list_children(node)[: 1 if is_judged else None]:
        yield from walk_changing(child, changed)


def explain_full_invalidation(node: Node, changed: frozenset[TableName], types: Mapping[str, str]) -> str | None:
    """Explains why any change below an operator may affect all rows of its result; None if that is not so.

    `types` are the types of columns, by name.
    """
    match node:
        case Aggregate(keys=()):
            return "an aggregate without groups has changed"
        case WindowColumns(partition=(), expressions=((name, _), *_)) if is_number_of_limit(name):
            return "rows below a LIMIT have changed, which no aggregate state tells"
        case WindowColumns(partition=()):
            return "a window over all rows has changed, one without PARTITION BY"
        case SemiJoin(right=right) if has_single_row(node):
            is_open = has_changed(right, changed) and not is_deterministic(right, types)
            return _UNSURE if is_open else None
        case SemiJoin(left=left, right=right, on=on) | Join(kind="left", left=left, right=right, on=on):
            is_open = has_changed(right, changed) and not has_link(left, right, on)
            return _NO_LINK if is_open else None
        case Join(kind="full", left=left, right=right, on=on):
            return None if has_link(left, right, on) else _NO_LINK
        case Join(left=left, right=right, on=on):
            if has_link(left, right, on):
                return None
            is_open = any(has_changed(side, changed) and is_unique(side, ()) for side in (left, right))
            return "a single row that all others are joined to has changed" if is_open else None
        case _:
            return None
