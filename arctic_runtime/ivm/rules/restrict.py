"""The rows of a tree that have given values, with the restriction moved towards what is read as far as is right."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import Equality, conjunction, equalities, plain, same
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
    walk,
)
from arctic_runtime.ivm.rules.terms import rename, select

_GIVEN = "__arctic_given_"


@dataclass(frozen=True)
class _Match:
    """A column of a tree has to equal a column of the given rows; null equals null where that can matter."""

    column: str
    given: str
    null_safe: bool = True


_Matches = tuple[_Match, ...]


def restrict(node: Node, names: tuple[str, ...], given: Node, null_safe: bool = True) -> Node:
    """The rows whose `names` equal the columns of a given row, by position and with nulls equal if `null_safe`.

    It is the semi-join with the given rows; where that can be done further down it is done there, and where only a
    part of it can, the part is done below and the whole on top.
    """
    aliases = tuple(f"{_GIVEN}{number}" for number in range(len(names)))
    matches = tuple(_Match(name, alias, null_safe) for name, alias in zip(names, aliases, strict=True))
    return _restricted(node, matches, rename(given, aliases))


def is_whole(node: Node) -> bool:
    """Whether a tree computes groups, windows or sets, which engines do for all rows before they look for any."""
    return any(isinstance(part, Aggregate | Distinct | SetOperation | Window) for part in walk(node))


def _restricted(node: Node, matches: _Matches, given: Node) -> Node:
    narrowed, is_done = _narrowed(node, matches, given)
    return narrowed if is_done else _semi(narrowed, matches, given)


def _some(node: Node, matches: _Matches, given: Node) -> Node:
    return _restricted(node, matches, given) if matches else node


def _semi(node: Node, matches: _Matches, given: Node) -> Node:
    on = conjunction(same(match.column, match.given, match.null_safe) for match in matches)
    return SemiJoin("semi", node, select(given, tuple(dict.fromkeys(match.given for match in matches))), on)


def _narrowed(node: Node, matches: _Matches, given: Node) -> tuple[Node, bool]:
    """The node over restricted inputs, and whether that is all there is to do."""
    match node:
        case Scan(key=key):
            return _semi(node, _without_nulls(matches, key or ()), given), True
        case SpoolScan() | OneRow():
            return node, False
        case Project():
            return _projected(node, matches, given)
        case Filter(child=child) | Distinct(child=child):
            return replace(node, child=_restricted(child, matches, given)), True
        case Explode(child=child):
            return _narrowed_to(node, columns(child), matches, given)
        case Aggregate(keys=keys):
            return _narrowed_to(node, keys, matches, given)
        case Window():
            return _window(node, matches, given)
        case Join(kind="full"):
            return node, False
        case Join() | SemiJoin():
            return _joined(node, matches, given)
        case UnionAll(inputs=inputs, names=names):
            return replace(node, inputs=tuple(_branch(part, names, matches, given) for part in inputs)), True
        case SetOperation(left=left, right=right, names=names):
            left, right = (_branch(part, names, matches, given) for part in (left, right))
            return replace(node, left=left, right=right), True
        case _:
            assert_never(node)


def _projected(node: Project, matches: _Matches, given: Node) -> tuple[Node, bool]:
    """By the columns that are the child's, or by those that a full join was made on and one of which is taken."""
    inner = _through(matches, plain(node.expressions))
    both = merged(node) if not inner else {}
    found = tuple(match for match in matches if match.column in both)
    child = _full(node.child, found, both, given) if found else _some(node.child, inner, given)
    return replace(node, child=child), len(matches) == len(found or inner)


def merged(node: Project) -> dict[str, Equality]:
    """The columns that are the left or else the right one of two that a full join below has equal."""
    join = _unfiltered(node.child)
    if not isinstance(join, Join) or join.kind != "full":
        return {}
    equal = equalities(join.on, columns(join.left), columns(join.right))
    found = {frozenset((pair.left, pair.right)): pair for pair in equal}
    coalesced = {name: _coalesced(value) for name, value in node.expressions}
    return {name: found[names] for name, names in coalesced.items() if names in found}


def _coalesced(value: exp.Expr) -> frozenset[str]:
    """The columns that an expression is the first not null of; none if it is anything else."""
    bare = value.unnest()
    parts = [part.unnest() for part in (bare.this, *bare.expressions)] if isinstance(bare, exp.Coalesce) else []
    return (
        frozenset(part.name for part in parts) if all(isinstance(part, exp.Column) for part in parts) else frozenset()
    )


def _unfiltered(node: Node) -> Node:
    return _unfiltered(node.child) if isinstance(node, Filter) else node


def _full(node: Node, matches: _Matches, both: Mapping[str, Equality], given: Node) -> Node:
    """A full join under filters; what is left of it are the rows whose merged columns are given."""
    if isinstance(node, Filter):
        return replace(node, child=_full(node.child, matches, both, given))
    if not isinstance(node, Join):
        return node
    left = _through(matches, {name: pair.left for name, pair in both.items()})
    right = _through(matches, {name: pair.right for name, pair in both.items()})
    return replace(node, left=_restricted(node.left, left, given), right=_restricted(node.right, right, given))


def _narrowed_to(
    node: Explode | Aggregate | Window, allowed: Collection[str], matches: _Matches, given: Node
) -> tuple[Node, bool]:
    """Restricts the child by those columns that are all its own and the same for all rows that belong together."""
    inner = tuple(match for match in matches if match.column in allowed)
    return replace(node, child=_some(node.child, inner, given)), len(inner) == len(matches)


def _window(node: Window, matches: _Matches, given: Node) -> tuple[Node, bool]:
    """Whole partitions: those given, or else those of the given rows, for which the child is read twice."""
    if not node.partition or any(match.column in node.partition for match in matches):
        return _narrowed_to(node, node.partition, matches, given)
    own = tuple(match for match in matches if match.column in columns(node.child))
    if not own:
        return node, False
    partitions = select(_restricted(node.child, own, given), node.partition)
    return replace(node, child=restrict(node.child, node.partition, partitions)), False


def _joined(node: Join | SemiJoin, matches: _Matches, given: Node) -> tuple[Node, bool]:
    """Each side by its own columns and, as only partners are needed of it, by those that the other side's equal.

    The columns of a side that rows can lack a partner on say nothing of the side itself.
    """
    equal = equalities(node.on, columns(node.left), columns(node.right))
    if isinstance(node, Join) and node.kind == "inner":
        matches = _without_nulls(matches, _never_null(equal))
        left = _through(matches, _stands_for(columns(node.left), {pair.right: pair.left for pair in equal}))
        right = _through(matches, _stands_for(columns(node.right), {pair.left: pair.right for pair in equal}))
    else:
        left = _through(matches, {name: name for name in columns(node.left)})
        right = _without_nulls(_through(matches, {pair.left: pair.right for pair in equal}), _never_null(equal))
    narrowed = replace(node, left=_some(node.left, left, given), right=_some(node.right, right, given))
    return narrowed, len(matches) in (len(left), len(right))


def _stands_for(own: Iterable[str], equal: Mapping[str, str]) -> dict[str, str]:
    return {**equal, **{name: name for name in own}}


def _never_null(equal: Iterable[Equality]) -> set[str]:
    """Columns that are null in no pair of partners."""
    return {name for pair in equal if not pair.null_safe for name in (pair.left, pair.right)}


def _without_nulls(matches: _Matches, names: Collection[str]) -> _Matches:
    return tuple(replace(match, null_safe=False) if match.column in names else match for match in matches)


def _through(matches: _Matches, names: Mapping[str, str]) -> _Matches:
    """The matches as they are in an input, by the input's names of the columns that it has."""
    return tuple(replace(match, column=names[match.column]) for match in matches if match.column in names)


def _branch(part: Node, names: tuple[str, ...], matches: _Matches, given: Node) -> Node:
    return _restricted(part, _through(matches, dict(zip(names, columns(part), strict=True))), given)
