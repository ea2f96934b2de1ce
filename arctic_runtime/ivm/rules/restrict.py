"""Restricts a tree to rows with given key values, by semi-joins that are as close to the scans as possible."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import (
    Equality,
    build_conjunction,
    build_equality,
    list_equalities,
    map_plain_columns,
)
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
    walk_tree,
)
from arctic_runtime.ivm.rules.terms import rename_columns, select_columns

_GIVEN = "__arctic_given_"


@dataclass(frozen=True)
class _Match:
    """Comparison of a column of a tree with `given`, a column of the given keys; nulls are equal if `null_safe`."""

    column: str
    given: str
    null_safe: bool = True


_Matches = tuple[_Match, ...]


def restrict_to_keys(node: Node, names: tuple[str, ...], keys: Node, null_safe: bool = True) -> Node:
    """Restricts a tree to the rows whose columns `names` equal a row of `keys`, by position.

    Nulls are equal if `null_safe`. The restriction is a semi-join with `keys`, as close to the scans as possible. If
    only some of the columns can be compared there, these are compared there, and all columns again on top.
    """
    aliases = tuple(f"{_GIVEN}{number}" for number in range(len(names)))
    matches = tuple(_Match(name, alias, null_safe) for name, alias in zip(names, aliases, strict=True))
    return _apply_restriction(node, matches, rename_columns(keys, aliases))


def has_blocking_operator(node: Node) -> bool:
    """Whether a tree has groups, window functions or set operations, which Spark computes for all input rows."""
    return any(isinstance(part, Aggregate | Distinct | SetOperation | WindowColumns) for part in walk_tree(node))


def _apply_restriction(node: Node, matches: _Matches, keys: Node) -> Node:
    narrowed, is_done = _push_down_keys(node, matches, keys)
    return narrowed if is_done else _semi_join_keys(narrowed, matches, keys)


def _restrict_if_any(node: Node, matches: _Matches, keys: Node) -> Node:
    return _apply_restriction(node, matches, keys) if matches else node


def _semi_join_keys(node: Node, matches: _Matches, keys: Node) -> Node:
    on = build_conjunction(build_equality(match.column, match.given, match.null_safe) for match in matches)
    return SemiJoin("semi", node, select_columns(keys, tuple(dict.fromkeys(match.given for match in matches))), on)


def _push_down_keys(node: Node, matches: _Matches, keys_node: Node) -> tuple[Node, bool]:
    """Restricts the inputs of an operator to `keys_node`; also returns whether this restricts its result completely."""
    match node:
        case Scan(key=key):
            return _semi_join_keys(node, _exclude_nulls(matches, key or ()), keys_node), True
        case SpoolScan() | OneRow():
            return node, False
        case Projection():
            return _push_below_project(node, matches, keys_node)
        case Filter(child=child) | Distinct(child=child):
            return replace(node, child=_apply_restriction(child, matches, keys_node)), True
        case Explode(child=child):
            return _push_below_allowed(node, list_columns(child), matches, keys_node)
        case Aggregate(keys=keys):
            return _push_below_allowed(node, keys, matches, keys_node)
        case WindowColumns():
            return _push_below_window(node, matches, keys_node)
        case Join(kind="full"):
            return node, False
        case Join() | SemiJoin():
            return _push_below_join(node, matches, keys_node)
        case UnionAll(inputs=inputs, names=names):
            return replace(
                node, inputs=tuple(_restrict_branch(part, names, matches, keys_node) for part in inputs)
            ), True
        case SetOperation(left=left, right=right, names=names):
            left, right = (_restrict_branch(part, names, matches, keys_node) for part in (left, right))
            return replace(node, left=left, right=right), True
        case _:
            assert_never(node)


def _push_below_project(node: Projection, matches: _Matches, keys: Node) -> tuple[Node, bool]:
    """Restricts the input of a projection by its plain columns, or else by columns `coalesce(a, b)` over a full join.

    In the latter, `a` and `b` are join keys. Also returns whether this restricts the projection's result completely.
    """
    inner = _rename_matches(matches, map_plain_columns(node.expressions))
    both = find_merged_columns(node) if not inner else {}
    merged_matches = tuple(match for match in matches if match.column in both)
    child = (
        _restrict_full_join(node.child, merged_matches, both, keys)
        if merged_matches
        else _restrict_if_any(node.child, inner, keys)
    )
    return replace(node, child=child), len(matches) == len(merged_matches or inner)


def find_merged_columns(node: Projection) -> dict[str, Equality]:
    """Maps each column `coalesce(a, b)` of a projection of a full join to the join's equality of `a` and `b`."""
    join = _strip_filters(node.child)
    if not isinstance(join, Join) or join.kind != "full":
        return {}
    equal = list_equalities(join.on, list_columns(join.left), list_columns(join.right))
    pairs_by_names = {frozenset((pair.left, pair.right)): pair for pair in equal}
    coalesced = {name: _get_coalesced(value) for name, value in node.expressions}
    return {name: pairs_by_names[names] for name, names in coalesced.items() if names in pairs_by_names}


def _get_coalesced(value: exp.Expr) -> frozenset[str]:
    """Names of the arguments of `coalesce(a, b, …)` if all are columns; empty for other expressions."""
    bare = value.unnest()
    parts = [part.unnest() for part in (bare.this, *bare.expressions)] if isinstance(bare, exp.Coalesce) else []
    return (
        frozenset(part.name for part in parts) if all(isinstance(part, exp.Column) for part in parts) else frozenset()
    )


def _strip_filters(node: Node) -> Node:
    return _strip_filters(node.child) if isinstance(node, Filter) else node


def _restrict_full_join(node: Node, matches: _Matches, both: Mapping[str, Equality], keys: Node) -> Node:
    """Restricts both sides of a full join, which may be below filters, by columns `coalesce(a, b)` of its keys.

    `both` maps each such column to the equality of `a` and `b` in the join.
    """
    if isinstance(node, Filter):
        return replace(node, child=_restrict_full_join(node.child, matches, both, keys))
    if not isinstance(node, Join):
        return node
    left = _rename_matches(matches, {name: pair.left for name, pair in both.items()})
    right = _rename_matches(matches, {name: pair.right for name, pair in both.items()})
    return replace(
        node, left=_apply_restriction(node.left, left, keys), right=_apply_restriction(node.right, right, keys)
    )


def _push_below_allowed(
    node: Explode | Aggregate | WindowColumns, allowed: Collection[str], matches: _Matches, keys: Node
) -> tuple[Node, bool]:
    """Restricts the input of `node` by the columns `allowed`; also returns whether all `matches` are on such columns.

    `allowed` are the columns that are the same in all rows of a group or partition, or in all rows generated from one
    row.
    """
    inner = tuple(match for match in matches if match.column in allowed)
    return replace(node, child=_restrict_if_any(node.child, inner, keys)), len(inner) == len(matches)


def _push_below_window(node: WindowColumns, matches: _Matches, keys: Node) -> tuple[Node, bool]:
    """Restricts the input of a window operator to whole partitions; also returns whether all matches are applied.

    If no match is on a partition column, the partitions are those of the matching rows, and the input is read twice.
    """
    if not node.partition or any(match.column in node.partition for match in matches):
        return _push_below_allowed(node, node.partition, matches, keys)
    own = tuple(match for match in matches if match.column in list_columns(node.child))
    if not own:
        return node, False
    partitions = select_columns(_apply_restriction(node.child, own, keys), node.partition)
    return replace(node, child=restrict_to_keys(node.child, node.partition, partitions)), False


def _push_below_join(node: Join | SemiJoin, matches: _Matches, keys: Node) -> tuple[Node, bool]:
    """Restricts each side of a join by matches on its own columns, and on columns of the other side that equal them.

    A side needs only rows that have a partner, so equal columns may restrict it. In a left, semi or anti join only
    matches on columns of the left side are used. Also returns whether the matches are applied completely.
    """
    equal = list_equalities(node.on, list_columns(node.left), list_columns(node.right))
    if isinstance(node, Join) and node.kind == "inner":
        matches = _exclude_nulls(matches, _find_never_null(equal))
        left = _rename_matches(
            matches, _map_equivalents(list_columns(node.left), {pair.right: pair.left for pair in equal})
        )
        right = _rename_matches(
            matches, _map_equivalents(list_columns(node.right), {pair.left: pair.right for pair in equal})
        )
    else:
        left = _rename_matches(matches, {name: name for name in list_columns(node.left)})
        right = _exclude_nulls(
            _rename_matches(matches, {pair.left: pair.right for pair in equal}), _find_never_null(equal)
        )
    narrowed = replace(
        node, left=_restrict_if_any(node.left, left, keys), right=_restrict_if_any(node.right, right, keys)
    )
    return narrowed, len(matches) in (len(left), len(right))


def _map_equivalents(own: Iterable[str], equal: Mapping[str, str]) -> dict[str, str]:
    return {**equal, **{name: name for name in own}}


def _find_never_null(equal: Iterable[Equality]) -> set[str]:
    """Columns that are never null in joined rows, because an equality that is not null-safe compares them."""
    return {name for pair in equal if not pair.null_safe for name in (pair.left, pair.right)}


def _exclude_nulls(matches: _Matches, names: Collection[str]) -> _Matches:
    return tuple(replace(match, null_safe=False) if match.column in names else match for match in matches)


def _rename_matches(matches: _Matches, names: Mapping[str, str]) -> _Matches:
    """Renames the columns of matches by `names`, to columns of an input; other matches are dropped."""
    return tuple(replace(match, column=names[match.column]) for match in matches if match.column in names)


def _restrict_branch(part: Node, names: tuple[str, ...], matches: _Matches, keys: Node) -> Node:
    return _apply_restriction(part, _rename_matches(matches, dict(zip(names, list_columns(part), strict=True))), keys)
