"""Moves conditions into joins and down to the operators whose columns they read, and adds range filters to scans.

Spark does that as well, but the rules of maintenance need it before: they find the equalities of a join only in the
join, and check conditions on changed rows of one source without a read of another only if these are below the join.

The conditions of joins that are written with commas stand in WHERE; the rules of maintenance read those in joins only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.clock import reads_clock, split_by_clock
from arctic_runtime.ivm.algebra.conditions import (
    build_conjunction,
    derive_implied,
    factor_conjuncts,
    list_equalities,
    map_plain_columns,
    substitute_columns,
)
from arctic_runtime.ivm.algebra.expressions import build_column, get_form, list_used_columns
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    SpoolScan,
    WindowColumns,
    is_timed,
    list_columns,
    list_expressions,
    map_children,
    walk_tree,
)
from arctic_runtime.model.files.bounds import Bound

_Conditions = tuple[exp.Expr, ...]


def push_down_filters(node: Node) -> Node:
    """Moves each condition of a tree as close to the scans as its meaning allows; the result stays the same."""
    return _push_under(node, ())


def _push_under(node: Node, conditions: _Conditions) -> Node:
    """Filters the result of `node` by `conditions`, as close to the scans as possible."""
    match node:
        case Filter(child=child, condition=condition):
            return _push_under(child, (*factor_conjuncts(condition), *conditions))
        case Projection(child=child, expressions=expressions):
            inner = tuple(substitute_columns(part, dict(expressions)) for part in conditions)
            return replace(node, child=_push_under(child, inner))
        case Distinct(child=child):
            return replace(node, child=_push_under(child, conditions))
        case Join():
            return _push_under_join(node, conditions)
        case SemiJoin():
            return _push_under_semi_join(node, conditions)
        case Aggregate(child=child, keys=allowed) | WindowColumns(child=child, partition=allowed):
            return _push_under_part(node, child, allowed, conditions)
        case Explode(child=child):
            return _push_under_part(node, child, list_columns(child), conditions)
        case _:
            return _apply_filter(map_children(node, push_down_filters), conditions)


def _push_under_part(
    node: Aggregate | WindowColumns | Explode, child: Node, allowed: Collection[str], conditions: _Conditions
) -> Node:
    below, rest = _split_by_columns(conditions, allowed)
    return _apply_filter(replace(node, child=_push_under(child, below)), rest)


def _push_under_join(node: Join, conditions: _Conditions) -> Node:
    if node.kind == "full":
        return _apply_filter(map_children(node, push_down_filters), conditions)
    if node.kind == "left":
        left, rest = _split_by_columns(conditions, list_columns(node.left))
        right, on = _split_by_columns(factor_conjuncts(node.on), list_columns(node.right))
        return _apply_filter(_rebuild_join(node, left, right, on), rest)
    left, others = _split_by_columns((*factor_conjuncts(node.on), *conditions), list_columns(node.left))
    right, on = _split_by_columns(others, list_columns(node.right))
    # The rules of joins need conditions that are the same before and after the changes.
    joined = _rebuild_join(node, left, right, tuple(part for part in on if not reads_clock(part)))
    return _apply_filter(joined, tuple(filter(reads_clock, on)))


def _push_under_semi_join(node: SemiJoin, conditions: _Conditions) -> Node:
    left, rest = _split_by_columns(conditions, list_columns(node.left))
    right, on = _split_by_columns(factor_conjuncts(node.on), list_columns(node.right))
    if node.kind == "semi":
        more, on = _split_by_columns(on, list_columns(node.left))
        left = (*left, *more)
    return _apply_filter(_rebuild_join(node, left, right, on), rest)


def _rebuild_join(node: Join | SemiJoin, left: _Conditions, right: _Conditions, on: _Conditions) -> Node:
    return replace(
        node, left=_push_under(node.left, left), right=_push_under(node.right, right), on=build_conjunction(on)
    )


def _split_by_columns(conditions: Iterable[exp.Expr], allowed: Collection[str]) -> tuple[_Conditions, _Conditions]:
    """Splits conditions into those that read only `allowed` columns, and the others.

    The first part also has conditions on `allowed` columns that the others imply. Conditions that read no column are in
    the second part, so that they are not moved.
    """
    inside: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for part in conditions:
        read = list_used_columns(part)
        is_inside = read and set(allowed).issuperset(read)
        pushed = part if is_inside else derive_implied(part, allowed)
        if pushed is not None:
            inside.append(pushed)
        if not is_inside:
            others.append(part)
    return tuple(inside), tuple(others)


def _apply_filter(node: Node, conditions: _Conditions) -> Node:
    condition = build_conjunction(conditions)
    return node if condition is None else Filter(node, condition)


def check_clock_places(tree: Node, functions: Collection[str]) -> None:
    """Raises NotMaintained if the time is used elsewhere than in conditions on rows, as in the select list.

    `functions` are the names of the query's functions that return the time.
    """
    for node in walk_tree(push_down_filters(tree)):
        if not isinstance(node, Filter) and any(map(reads_clock, list_expressions(node))):
            names = ", ".join(name.lower() for name in functions)
            raise NotMaintained("NON_DETERMINISTIC", f"{names} outside of a condition in WHERE or HAVING")


def drop_clock_conditions(node: Node) -> Node:
    """Returns a tree without the conditions on the time: with the rows that it has at any time, and more."""
    below = map_children(node, drop_clock_conditions)
    if not isinstance(below, Filter) or not is_timed(below):
        return below
    rest = build_conjunction(split_by_clock(below.condition)[1])
    return below.child if rest is None else Filter(below.child, rest)


def list_join_columns(node: Node) -> frozenset[str]:
    """Lists the columns that the joins in a tree compare for equality."""
    names: set[str] = set()
    for part in walk_tree(node):
        if isinstance(part, (Join, SemiJoin)):
            pairs = list_equalities(part.on, list_columns(part.left), list_columns(part.right))
            names.update(name for pair in pairs for name in (pair.left, pair.right))
    return frozenset(names)


def narrow_sources(node: Node, keys_name: str, bounds: Sequence[Bound]) -> Node:
    """Adds range filters to scans that are semi-joined with the spool `keys_name`; returns the new tree.

    `bounds` are the least and greatest values of the spool's columns, so that the filters do not change the result.
    """
    below = map_children(node, lambda child: narrow_sources(child, keys_name, bounds))
    if not isinstance(below, SemiJoin) or below.kind != "semi" or not isinstance(below.left, Scan):
        return below
    asked = _map_key_columns(below.right, keys_name)
    pairs = list_equalities(below.on, list_columns(below.left), list_columns(below.right))
    conditions = [
        bound.build_condition(build_column(pair.left))
        for pair in pairs
        for bound in bounds
        if pair.same and asked.get(pair.right) == bound.column
    ]
    where = build_conjunction(conditions)
    return replace(below, left=Filter(below.left, where)) if where is not None else below


def _map_key_columns(node: Node, keys_name: str) -> dict[str, str]:
    """Maps columns of a tree to columns of the spool `keys_name`; empty unless the tree only selects from the spool."""
    match node:
        case SpoolScan(name=name, names=names) if name == keys_name:
            return {name: name for name in names}
        case Projection(child=child, expressions=expressions):
            below = _map_key_columns(child, keys_name)
            return {name: below[own] for name, own in map_plain_columns(expressions).items() if own in below}
        case _:
            return {}


def split_conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Splits a condition into conjuncts; `a and b or a and c` is split into `a` and `b or c`."""
    if condition is None:
        return []
    bare = condition.unnest()
    if isinstance(bare, exp.And):
        return [*split_conjuncts(bare.this), *split_conjuncts(bare.expression)]
    return _factor_disjunction(bare) if isinstance(bare, exp.Or) else [bare]


def apply_filter(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    """Filters the rows of `node` by all conditions; returns `node` itself if there are none."""
    condition = build_conjunction(conditions)
    return node if condition is None else Filter(node, condition)


def arrange_joins(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    """Reorders the inner joins at the top of a tree, and applies `conditions` to their rows as early as possible.

    If possible, each input is joined to inputs with which a condition equates some of its columns.
    """
    leaves, own = _collect_leaves(node)
    if len(leaves) == 1:
        return apply_filter(node, conditions)
    waiting = [*own, *conditions]
    parts = []
    for leaf in leaves:
        here, waiting = _split_by_available(waiting, set(list_columns(leaf)))
        parts.append(apply_filter(leaf, [part for part in here if list_used_columns(part)]))
        waiting = [part for part in here if not list_used_columns(part)] + waiting
    return _connect_parts(parts, waiting)


def _factor_disjunction(condition: exp.Or) -> list[exp.Expr]:
    branches = [split_conjuncts(branch) for branch in _split_branches(condition)]
    shared = set.intersection(*({get_form(part) for part in branch} for branch in branches))
    if not shared:
        return [condition]
    common = {get_form(part): part for part in branches[0] if get_form(part) in shared}
    rest = [build_conjunction(part for part in branch if get_form(part) not in shared) for branch in branches]
    left = [part for part in rest if part is not None]
    return [*common.values(), exp.or_(*left)] if len(left) == len(rest) else list(common.values())


def _split_branches(condition: exp.Expr) -> list[exp.Expr]:
    bare = condition.unnest()
    return [*_split_branches(bare.this), *_split_branches(bare.expression)] if isinstance(bare, exp.Or) else [bare]


def _collect_leaves(node: Node) -> tuple[list[Node], list[exp.Expr]]:
    """Lists the inputs of a tree of inner joins, and the conjuncts of all its join conditions."""
    if not isinstance(node, Join) or node.kind != "inner":
        return [node], []
    left, before = _collect_leaves(node.left)
    right, behind = _collect_leaves(node.right)
    return left + right, before + behind + split_conjuncts(node.on)


def _connect_parts(parts: Sequence[Node], conditions: Iterable[exp.Expr]) -> Node:
    joined, *left = parts
    waiting = list(conditions)
    while left:
        have = set(list_columns(joined))
        place = next(
            (at for at, part in enumerate(left) if _shares_condition(waiting, have, set(list_columns(part)))), 0
        )
        part = left.pop(place)
        here, waiting = _split_by_available(waiting, have | set(list_columns(part)))
        joined = Join("inner", joined, part, build_conjunction(here))
    return apply_filter(joined, waiting)


def _shares_condition(conditions: Iterable[exp.Expr], have: set[str], more: set[str]) -> bool:
    read = (list_used_columns(condition) for condition in conditions if isinstance(condition, exp.EQ | exp.NullSafeEQ))
    return any(have.intersection(names) and more.intersection(names) and not set(names) - have - more for names in read)


def _split_by_available(conditions: Iterable[exp.Expr], available: set[str]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Splits conditions into those that read only `available` columns, and the others."""
    here: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for condition in conditions:
        (here if available.issuperset(list_used_columns(condition)) else others).append(condition)
    return here, others
