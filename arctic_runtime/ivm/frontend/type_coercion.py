"""Marks equalities of columns whose equal values may differ, by their types, and refuses keys with collations.

In SQL both `'07' = 7` and `'7' = 7` are true, so a column of texts must not replace one of numbers although a condition
equates them. Unless the types rule this out, both sides of such an equality are written as `coalesce(x)`, which has the
same value but is no plain column, so that no rule replaces one side by the other. Values of two types of exact numbers
correspond one to one but are not the same, as `1` and `1.00`: there only the left side is written as `coalesce(x)`.

By a collation different texts can be equal, for example regardless of case. Maintenance compares keys exactly, without
collations, and added and removed rows cancel out only if they are identical. So a collation may be used only in
conditions, which are evaluated for one row or one pair of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import list_used_columns, walk_parts
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale, is_integer
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Explode,
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    WindowColumns,
    list_children,
    map_children,
    walk_tree,
)
from arctic_runtime.ivm.frontend.scope import Names

_OTHER_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "dec": "decimal",
    "numeric": "decimal",
    "real": "float",
    "varchar": "string",
    "timestamp_ltz": "timestamp",
}
_MOST_DIGITS = 38
_INEXACT = ("float", "double")
_MOMENTS = ("date", "timestamp", "timestamp_ntz")


def mark_unlike(node: Node, names: Names) -> Node:
    """Marks the equalities in a tree: writes their sides as `coalesce(x)` if equal values may differ.

    The module's docstring explains the mark.
    """
    if list_children(node):
        node = map_children(node, lambda child: mark_unlike(child, names))
    match node:
        case Projection(expressions=expressions):
            return replace(
                node, expressions=tuple((name, mark_equalities(value, names)) for name, value in expressions)
            )
        case Filter(condition=condition):
            return replace(node, condition=mark_equalities(condition, names))
        case Join(on=on) | SemiJoin(on=on):
            return replace(node, on=None if on is None else mark_equalities(on, names))
    return node


def is_comparison_lossless(left: str | None, right: str | None) -> bool:
    """Whether a value of one type equals at most one value of the other type; False if a type is None (not known)."""
    if left is None or right is None:
        return False
    one, other = _split_digits(left), _split_digits(right)
    if one and other:
        return max(one[0], other[0]) + max(one[1], other[1]) <= _MOST_DIGITS
    return is_same(left, right) and "collate" not in left


def is_same(left: str, right: str) -> bool:
    """Whether two names of types, such as `long` and `bigint`, mean the same type; lengths of texts are ignored."""
    return _normalize_type(left) == _normalize_type(right)


def find_common_type(left: str, right: str) -> str | None:
    """Returns the type to which a set operation converts both types; None if it is not certain."""
    one, other = _split_digits(left), _split_digits(right)
    kinds = {_normalize_type(left), _normalize_type(right)}
    if one and other and is_comparison_lossless(left, right):
        if all(map(is_integer, kinds)):
            return max(kinds, key=lambda kind: _split_digits(kind) or (0, 0))
        whole, rest = max(one[0], other[0]), max(one[1], other[1])
        return f"decimal({whole + rest},{rest})"
    if "double" in kinds and (one or other or "float" in kinds):
        return "double"
    return "timestamp" if kinds == {"date", "timestamp"} else None


def mark_equalities(condition: exp.Expr, names: Names) -> exp.Expr:
    """Marks a condition that is an equality, and equalities that AND connects, as `mark_unlike` does; others remain."""
    match condition:
        case exp.Paren():
            return exp.Paren(this=mark_equalities(condition.this, names))
        case exp.And():
            return exp.And(
                this=mark_equalities(condition.this, names), expression=mark_equalities(condition.expression, names)
            )
        case exp.EQ() | exp.NullSafeEQ():
            return _mark_equality(condition, names)
    return condition


def _mark_equality(equality: exp.EQ | exp.NullSafeEQ, names: Names) -> exp.Expr:
    left, right = equality.this, equality.expression
    is_left, is_right = (isinstance(side.unnest(), exp.Column) for side in (left, right))
    types = names.type_of(left), names.type_of(right)
    if is_left and is_right:
        keeps = is_comparison_lossless(*types)
        return _rebuild_equality(equality, not (keeps and _is_interchangeable(*types)), not keeps)
    return _rebuild_equality(
        equality,
        is_left and not _has_one_value(types[0], types[1], right),
        is_right and not _has_one_value(types[1], types[0], left),
    )


def _is_interchangeable(left: str | None, right: str | None) -> bool:
    """Whether equal values of two types are always the same; not so for floating point, because of 0.0 and -0.0."""
    return left is not None and right is not None and is_same(left, right) and _normalize_type(left) not in _INEXACT


def _has_one_value(of_type: str | None, other_type: str | None, other: exp.Expr) -> bool:
    """Whether each value of the expression `other` equals at most one value of a column of type `of_type`.

    `other_type` is the type of `other`.
    """
    own = _normalize_type(of_type or "")
    if own in _MOMENTS and other_type == "string" and not list_used_columns(other):
        return True
    return is_comparison_lossless(of_type, other_type) and own not in _INEXACT


def _rebuild_equality(equality: exp.EQ | exp.NullSafeEQ, left: bool, right: bool) -> exp.Expr:
    if not left and not right:
        return equality
    sides = ((equality.this, left), (equality.expression, right))
    one, other = (exp.Coalesce(this=side.copy(), expressions=[]) if asked else side.copy() for side, asked in sides)
    return type(equality)(this=one, expression=other)


def _split_digits(of_type: str) -> tuple[int, int] | None:
    """Returns the numbers of digits before and after the point of an integer or decimal type; None for other types."""
    precision, scale = get_precision_and_scale(of_type) or (0, 0)
    return (precision - scale, scale) if precision else None


def _normalize_type(of_type: str) -> str:
    """Returns the spelling of a type by which types are compared, such as `bigint` for `long`; texts have no length."""
    name, bracket, rest = of_type.lower().replace(" ", "").partition("(")
    known = _OTHER_NAMES.get(name, name)
    return known if known == "string" else f"{known}{bracket}{rest}"


def check_collations(tree: Node, types: Mapping[str, str]) -> None:
    """Raises NotMaintained if `tree` uses a collation outside of conditions, or reads a column with a collation.

    `types` are the types of the columns of the tree, by name.
    """
    for node in walk_tree(tree):
        if any(has_collation(part) for value in _list_values(node) for part in walk_parts(value)):
            raise NotMaintained("UNSUPPORTED", "a collation outside of conditions; write lower(…) or upper(…) instead")
        named = node.fields if isinstance(node, Scan) else ()
        collated = next((stored for name, stored in named if "collate" in types.get(name, "").lower()), None)
        if collated is not None:
            raise NotMaintained("UNSUPPORTED", f"{collated} is a column with a collation")


def has_collation(part: exp.Expr) -> bool:
    """Whether `part` itself, without the expressions inside it, applies a collation or is a type with one."""
    if isinstance(part, exp.DataType):
        return "collate" in part.sql(dialect="spark").lower()
    return isinstance(part, exp.Collate) or (isinstance(part, exp.Anonymous) and part.name.upper() == "COLLATE")


def _list_values(node: Node) -> Iterable[exp.Expr]:
    match node:
        case Projection(expressions=named) | WindowColumns(expressions=named) | Aggregate(aggregates=named):
            return [value for _, value in named]
        case Explode(generator=generator):
            return [generator]
        case _:
            return ()
