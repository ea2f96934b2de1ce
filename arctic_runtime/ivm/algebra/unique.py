"""Which columns are proven to identify a row of a tree."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import conjuncts, constants, equalities, plain
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

_Keys = tuple[frozenset[str], ...]
_MOST = 16
"""Joins of many sources have keys without number; the first ones found are those of the tables listed first."""


def unique_keys(node: Node) -> _Keys:
    """Sets of columns that no two rows have equal, with nulls equal to each other; the empty set: at most one row."""
    return _least(_keys(node))


def is_unique(node: Node, names: Iterable[str]) -> bool:
    """Whether no two rows can be equal in these columns, or in those which they equal by a condition below."""
    return _has_key(node, unique_keys(node), names)


def is_one_partner(names: Collection[str], partner: Node, on: exp.Expr | None) -> bool:
    """Whether a row with the columns `names` finds one row of `partner` at most by the condition of a join."""
    return _finds_one(names, partner, unique_keys(partner), on)


def _has_key(node: Node, keys: _Keys, names: Iterable[str]) -> bool:
    known = _determined(node, frozenset(names))
    return any(key <= known for key in keys)


def _finds_one(names: Collection[str], partner: Node, keys: _Keys, on: exp.Expr | None) -> bool:
    equal = {pair.right for pair in equalities(on, names, columns(partner))}
    return _has_key(partner, keys, equal | constants(on).intersection(columns(partner)))


def _keys(node: Node) -> Iterable[frozenset[str]]:  # noqa: C901 - one case per operator
    match node:
        case Scan(key=key, image=image):
            return (frozenset(key),) if key is not None and image in ("new", "old") else ()
        case OneRow():
            return (frozenset(),)
        case SpoolScan(key=key):
            return () if key is None else (frozenset(key),)
        case UnionAll():
            return ()
        case Explode(child=child, generator=generator, names=names):
            return (key | set(names) for key in unique_keys(child)) if _makes_no_copies(generator) else ()
        case Filter(child=child, condition=condition):
            fixed = constants(condition)
            return (key - fixed for key in unique_keys(child))
        case Window(child=child) | SemiJoin(left=child):
            return unique_keys(child)
        case Project():
            return _projected(node)
        case Join():
            return _joined(node)
        case Aggregate(child=child, keys=keys):
            return (*(key for key in unique_keys(child) if key <= set(keys)), frozenset(keys) - _constants(child))
        case Distinct(child=child):
            return (*unique_keys(child), frozenset(columns(child)))
        case SetOperation(all=is_all, left=left, names=names):
            own = dict(zip(columns(left), names, strict=True))
            rows = () if is_all else (frozenset(names),)
            return (*(frozenset(own[name] for name in key) for key in unique_keys(left)), *rows)
        case _:
            assert_never(node)


def _makes_no_copies(generator: exp.Expr) -> bool:
    """Whether a generator gives a row literals that all differ."""
    array = generator.this if isinstance(generator, exp.Explode) else None
    values = array.expressions if isinstance(array, exp.Array) else []
    is_written = bool(values) and all(isinstance(value, exp.Literal) and value.is_string for value in values)
    return is_written and len({value.name for value in values}) == len(values)


def _projected(node: Project) -> Iterable[frozenset[str]]:
    """Keys whose columns are still there, perhaps as one that they equal."""
    names = {below: name for name, below in plain(node.expressions).items()}
    for key in unique_keys(node.child):
        found = [next((names[same] for same in _equal_to(node.child, part) if same in names), None) for part in key]
        if None not in found:
            yield frozenset(name for name in found if name is not None)


def _joined(node: Join) -> Iterable[frozenset[str]]:
    """A side's keys where a row of it has one partner at most, else a key of each side together."""
    if node.kind == "full":
        return ()
    left, right = unique_keys(node.left), unique_keys(node.right)
    found: list[frozenset[str]] = []
    if _finds_one(columns(node.left), node.right, right, node.on):
        found.extend(left)
    if node.kind == "inner" and _finds_one(columns(node.right), node.left, left, node.on):
        found.extend(right)
    return found or [one | other for one in left for other in right]


def _determined(node: Node, names: frozenset[str]) -> frozenset[str]:
    """The names, all columns that equal one of them, and those that have one value only."""
    return names.union(_constants(node), *(_equal_to(node, name) for name in names))


def _equal_to(node: Node, name: str) -> tuple[str, ...]:
    """A column and those that have the same value in every row, itself first."""
    found = [name]
    pairs = _equal_pairs(node)
    for reached in found:
        found.extend(
            dict.fromkeys(
                _other(pair, reached) for pair in pairs if reached in pair and _other(pair, reached) not in found
            )
        )
    return tuple(found)


def _other(pair: tuple[str, str], name: str) -> str:
    return pair[1] if pair[0] == name else pair[0]


def _equal_pairs(node: Node) -> tuple[tuple[str, str], ...]:
    return tuple(pair for condition in _true(node) for pair in _pairs(condition, node))


def _pairs(condition: exp.Expr, node: Node) -> tuple[tuple[str, str], ...]:
    names = columns(node)
    return tuple((pair.left, pair.right) for pair in equalities(condition, names, names))


def _constants(node: Node) -> frozenset[str]:
    return frozenset().union(*(constants(condition) for condition in _true(node)))


def _true(node: Node) -> Iterable[exp.Expr]:
    """Conditions that are true of every row, in columns of this node."""
    match node:
        case Filter(child=child, condition=condition):
            return (*conjuncts(condition), *_true(child))
        case Join(kind="inner", left=left, right=right, on=on):
            return (*conjuncts(on), *_true(left), *_true(right))
        case Join(kind="left", left=left):
            return _true(left)
        case SemiJoin(left=child) | Window(child=child) | Explode(child=child) | Distinct(child=child):
            return _true(child)
        case _:
            return ()


def _least(keys: Iterable[frozenset[str]]) -> _Keys:
    """Without those that contain another."""
    found = tuple(dict.fromkeys(keys))
    return tuple(key for key in found if not any(other < key for other in found))[:_MOST]


def has_single_row(node: SemiJoin) -> bool:
    """Whether there is one row on the right at most, so that it is either the partner of a row or there is none."""
    return is_unique(node.right, ())
