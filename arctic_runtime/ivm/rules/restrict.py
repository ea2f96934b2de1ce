"""The rows of a tree that have given values, with the restriction moved towards what is read as far as is right."""

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
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    Window,
    list_columns,
    walk_tree,
)
from arctic_runtime.ivm.rules.terms import rename_columns, select_columns

_GIVEN = "__arctic_given_"


@dataclass(frozen=True)
class _Match:
    """A column of a tree has to equal a column of the given rows; null equals null where that can matter."""

    column: str
    given: str
    null_safe: bool = True


_Matches = tuple[_Match, ...]


def restrict_to_keys(node: Node, names: tuple[str, ...], keys: Node, null_safe: bool = True) -> Node:
    """The rows whose `names` equal the columns of a given row, by position and with nulls equal if `null_safe`.

    It is the semi-join with the given rows; if that can be done further down it is done there, and if only a
    part of it can, the part is done below and the whole on top.
    """
    aliases = tuple(f"{_GIVEN}{number}" for number in range(len(names)))
    matches = tuple(_Match(name, alias, null_safe) for name, alias in zip(names, aliases, strict=True))
    return _apply_restriction(node, matches, rename_columns(keys, aliases))


def is_whole(node: Node) -> bool:
    """Whether a tree computes groups, windows or sets, which engines do for all rows before they look for any."""
    return any(isinstance(part, Aggregate | Distinct | SetOperation | Window) for part in walk_tree(node))


def _apply_restriction(node: Node, matches: _Matches, keys: Node) -> Node:
    narrowed, is_done = _push_down_keys(node, matches, keys)
    return narrowed if is_done else _semi_join_keys(narrowed, matches, keys)


def _restrict_if_any(node: Node, matches: _Matches, keys: Node) -> Node:
    return _apply_restriction(node, matches, keys) if matches else node


def _semi_join_keys(node: Node, matches: _Matches, keys: Node) -> Node:
    on = build_conjunction(build_equality(match.column, match.given, match.null_safe) for match in matches)
    return SemiJoin("semi", node, select_columns(keys, tuple(dict.fromkeys(match.given for match in matches))), on)


def _push_down_keys(node: Node, matches: _Matches, keys_node: Node) -> tuple[Node, bool]:
    """The node over restricted inputs, and whether that is all there is to do."""
    match node:
        case Scan(key=key):
            return _semi_join_keys(node, _exclude_nulls(matches, key or ()), keys_node), True
        case SpoolScan() | OneRow():
            return node, False
        case Project():
            return _push_below_project(node, matches, keys_node)
        case Filter(child=child) | Distinct(child=child):
            return replace(node, child=_apply_restriction(child, matches, keys_node)), True
        case Explode(child=child):
            return _push_below_allowed(node, list_columns(child), matches, keys_node)
        case Aggregate(keys=keys):
            return _push_below_allowed(node, keys, matches, keys_node)
        case Window():
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


def _push_below_project(node: Project, matches: _Matches, keys: Node) -> tuple[Node, bool]:
    """By the columns that are the child's, or by those that a full join was made on and one of which is taken."""
    inner = _rename_matches(matches, map_plain_columns(node.expressions))
    both = find_merged_columns(node) if not inner else {}
    merged_matches = tuple(match for match in matches if match.column in both)
    child = (
        _restrict_full_join(node.child, merged_matches, both, keys)
        if merged_matches
        else _restrict_if_any(node.child, inner, keys)
    )
    return replace(node, child=child), len(matches) == len(merged_matches or inner)


def find_merged_columns(node: Project) -> dict[str, Equality]:
    """The columns that are the left or else the right one of two that a full join below has equal."""
    join = _strip_filters(node.child)
    if not isinstance(join, Join) or join.kind != "full":
        return {}
    equal = list_equalities(join.on, list_columns(join.left), list_columns(join.right))
    pairs_by_names = {frozenset((pair.left, pair.right)): pair for pair in equal}
    coalesced = {name: _get_coalesced(value) for name, value in node.expressions}
    return {name: pairs_by_names[names] for name, names in coalesced.items() if names in pairs_by_names}


def _get_coalesced(value: exp.Expr) -> frozenset[str]:
    """The columns that an expression is the first not null of; none if it is anything else."""
    bare = value.unnest()
    parts = [part.unnest() for part in (bare.this, *bare.expressions)] if isinstance(bare, exp.Coalesce) else []
    return (
        frozenset(part.name for part in parts) if all(isinstance(part, exp.Column) for part in parts) else frozenset()
    )


def _strip_filters(node: Node) -> Node:
    return _strip_filters(node.child) if isinstance(node, Filter) else node


def _restrict_full_join(node: Node, matches: _Matches, both: Mapping[str, Equality], keys: Node) -> Node:
    """A full join under filters; what is left of it are the rows whose merged columns are given."""
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
    node: Explode | Aggregate | Window, allowed: Collection[str], matches: _Matches, keys: Node
) -> tuple[Node, bool]:
    """Restricts the child by those columns that are all its own and the same for all rows that belong together."""
    inner = tuple(match for match in matches if match.column in allowed)
    return replace(node, child=_restrict_if_any(node.child, inner, keys)), len(inner) == len(matches)


def _push_below_window(node: Window, matches: _Matches, keys: Node) -> tuple[Node, bool]:
    """Whole partitions: those given, or else those of the given rows, for which the child is read twice."""
    if not node.partition or any(match.column in node.partition for match in matches):
        return _push_below_allowed(node, node.partition, matches, keys)
    own = tuple(match for match in matches if match.column in list_columns(node.child))
    if not own:
        return node, False
    partitions = select_columns(_apply_restriction(node.child, own, keys), node.partition)
    return replace(node, child=restrict_to_keys(node.child, node.partition, partitions)), False


def _push_below_join(node: Join | SemiJoin, matches: _Matches, keys: Node) -> tuple[Node, bool]:
    """Each side by its own columns and, as only partners are needed of it, by those that the other side's equal.

    The columns of a side that rows can lack a partner on say nothing of the side itself.
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
    """Columns that are null in no pair of partners."""
    return {name for pair in equal if not pair.null_safe for name in (pair.left, pair.right)}


def _exclude_nulls(matches: _Matches, names: Collection[str]) -> _Matches:
    return tuple(replace(match, null_safe=False) if match.column in names else match for match in matches)


def _rename_matches(matches: _Matches, names: Mapping[str, str]) -> _Matches:
    """The matches as they are in an input, by the input's names of the columns that it has."""
    return tuple(replace(match, column=names[match.column]) for match in matches if match.column in names)


def _restrict_branch(part: Node, names: tuple[str, ...], matches: _Matches, keys: Node) -> Node:
    return _apply_restriction(part, _rename_matches(matches, dict(zip(names, list_columns(part), strict=True))), keys)
