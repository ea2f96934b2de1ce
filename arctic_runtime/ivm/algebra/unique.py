"""Finds sets of columns that are proven to identify a row of an operator's result."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import (
    list_constant_columns,
    list_equalities,
    map_plain_columns,
    split_conjuncts,
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
)

_Keys = tuple[frozenset[str], ...]
_MOST = 16
"""Maximum number of unique keys per operator; a join of many tables may have more, of which the first are kept."""


def find_unique_keys(node: Node) -> _Keys:
    """Finds unique keys of `node`: sets of columns in which no two rows of its result are equal, with nulls equal.

    The empty set means that the result has at most one row. Keys that can't be proven are not returned.
    """
    return _select_minimal_keys(_derive_keys(node))


def is_unique(node: Node, names: Iterable[str]) -> bool:
    """Whether the columns `names` are proven to identify a row of `node`.

    Columns that conditions below `node` equate with one of `names` or with a constant count as part of `names`.
    """
    return _has_key(node, find_unique_keys(node), names)


def is_one_partner(names: Collection[str], partner: Node, on: exp.Expr | None) -> bool:
    """Whether each row with the columns `names` is proven to match at most one row of `partner` in a join on `on`."""
    return _has_one_partner(names, partner, find_unique_keys(partner), on)


def _has_key(node: Node, keys: _Keys, names: Iterable[str]) -> bool:
    known = _close_over_equals(node, frozenset(names))
    return any(key <= known for key in keys)


def _has_one_partner(names: Collection[str], partner: Node, keys: _Keys, on: exp.Expr | None) -> bool:
    equal = {pair.right for pair in list_equalities(on, names, list_columns(partner))}
    return _has_key(partner, keys, equal | list_constant_columns(on).intersection(list_columns(partner)))


def _derive_keys(node: Node) -> Iterable[frozenset[str]]:  # noqa: C901 - one case per operator
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
            return (key | set(names) for key in find_unique_keys(child)) if _is_copy_free(generator) else ()
        case Filter(child=child, condition=condition):
            fixed = list_constant_columns(condition)
            return (key - fixed for key in find_unique_keys(child))
        case WindowColumns(child=child) | SemiJoin(left=child):
            return find_unique_keys(child)
        case Projection():
            return _project_keys(node)
        case Join():
            return _join_keys(node)
        case Aggregate(child=child, keys=keys):
            return (
                *(key for key in find_unique_keys(child) if key <= set(keys)),
                frozenset(keys) - _list_constants(child),
            )
        case Distinct(child=child):
            return (*find_unique_keys(child), frozenset(list_columns(child)))
        case SetOperation(all=is_all, left=left, names=names):
            own = dict(zip(list_columns(left), names, strict=True))
            rows = () if is_all else (frozenset(names),)
            return (*(frozenset(own[name] for name in key) for key in find_unique_keys(left)), *rows)
        case _:
            assert_never(node)


def _is_copy_free(generator: exp.Expr) -> bool:
    """Whether a generator is `explode` of an array of distinct string literals, so that it returns no value twice."""
    array = generator.this if isinstance(generator, exp.Explode) else None
    values = array.expressions if isinstance(array, exp.Array) else []
    is_written = bool(values) and all(isinstance(value, exp.Literal) and value.is_string for value in values)
    return is_written and len({value.name for value in values}) == len(values)


def _project_keys(node: Projection) -> Iterable[frozenset[str]]:
    """Yields the unique keys of a projection's input of which the projection keeps all columns, by the new names.

    In place of a key column, the projection may keep another column that always has the same value.
    """
    names = {below: name for name, below in map_plain_columns(node.expressions).items()}
    for key in find_unique_keys(node.child):
        equal_names = [
            next((names[same] for same in _list_equal_columns(node.child, part) if same in names), None) for part in key
        ]
        if None not in equal_names:
            yield frozenset(name for name in equal_names if name is not None)


def _join_keys(node: Join) -> Iterable[frozenset[str]]:
    """Finds unique keys of a join: the keys of each side whose rows have at most one partner.

    If neither side is such, they are the unions of a key of the left and a key of the right side. Full joins have none.
    """
    if node.kind == "full":
        return ()
    left, right = find_unique_keys(node.left), find_unique_keys(node.right)
    keys: list[frozenset[str]] = []
    if _has_one_partner(list_columns(node.left), node.right, right, node.on):
        keys.extend(left)
    if node.kind == "inner" and _has_one_partner(list_columns(node.right), node.left, left, node.on):
        keys.extend(right)
    return keys or [one | other for one in left for other in right]


def _close_over_equals(node: Node, names: frozenset[str]) -> frozenset[str]:
    """Returns `names` and all columns of `node` that always equal one of `names` or a constant."""
    return names.union(_list_constants(node), *(_list_equal_columns(node, name) for name in names))


def _list_equal_columns(node: Node, name: str) -> tuple[str, ...]:
    """Lists the columns that have the same value as `name` in every row, `name` itself first."""
    names = [name]
    pairs = tuple(pair for condition in _list_true_conditions(node) for pair in _pair_equal_columns(condition, node))
    for reached in names:
        names.extend(
            dict.fromkeys(
                _get_other_side(pair, reached)
                for pair in pairs
                if reached in pair and _get_other_side(pair, reached) not in names
            )
        )
    return tuple(names)


def _get_other_side(pair: tuple[str, str], name: str) -> str:
    return pair[1] if pair[0] == name else pair[0]


def _pair_equal_columns(condition: exp.Expr, node: Node) -> tuple[tuple[str, str], ...]:
    names = list_columns(node)
    return tuple((pair.left, pair.right) for pair in list_equalities(condition, names, names))


def _list_constants(node: Node) -> frozenset[str]:
    return frozenset().union(*(list_constant_columns(condition) for condition in _list_true_conditions(node)))


def _list_true_conditions(node: Node) -> Iterable[exp.Expr]:
    """Lists the conditions of filters and joins at or below `node` that are true for every row of its result."""
    match node:
        case Filter(child=child, condition=condition):
            return (*split_conjuncts(condition), *_list_true_conditions(child))
        case Join(kind="inner", left=left, right=right, on=on):
            return (*split_conjuncts(on), *_list_true_conditions(left), *_list_true_conditions(right))
        case Join(kind="left", left=left):
            return _list_true_conditions(left)
        case SemiJoin(left=child) | WindowColumns(child=child) | Explode(child=child) | Distinct(child=child):
            return _list_true_conditions(child)
        case _:
            return ()


def _select_minimal_keys(keys: Iterable[frozenset[str]]) -> _Keys:
    """Removes keys that are a proper superset of another key, and then all but the first `_MOST`."""
    unique_sets = tuple(dict.fromkeys(keys))
    return tuple(key for key in unique_sets if not any(other < key for other in unique_sets))[:_MOST]


def has_single_row(node: SemiJoin) -> bool:
    """Whether the right side of a semi or anti join is proven to have at most one row."""
    return is_unique(node.right, ())
