"""Derives rows that exist before or after the changes, so that a rule's expressions raise no unexpected error.

Rules may derive a superset of the changed rows. An expression that can raise an error must not be evaluated for rows
that the query never has.

Under ANSI rules `cast(s as int)` raises an error if `s` is no number. A query that removes such rows by a filter before
the cast never raises this error, so a plan that maintains the query must not raise it either: it evaluates such an
expression only for rows for which the query evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.clock import CLOCK
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.inferred_types import type_of
from arctic_runtime.ivm.algebra.numbers import get_precision_and_scale, is_integer
from arctic_runtime.ivm.algebra.refusal import NotMaintained
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
    is_timed,
    list_columns,
    walk_tree,
)
from arctic_runtime.ivm.rules.inputs import Inputs, Names, pick_some, select_before_and_after, select_old_and_new
from arctic_runtime.ivm.rules.terms import require_term


def find_free_columns(node: Node, names: Iterable[str]) -> frozenset[str]:
    """Finds the columns of `node` that need no further scan or join if a plan derives the columns `names` anyway."""
    asked = frozenset(names)
    match node:
        case Scan() | SpoolScan() | OneRow():
            return frozenset(list_columns(node))
        case Projection(child=child, expressions=expressions):
            needed = [part for name, value in expressions if name in asked for part in list_used_columns(value)]
            below = find_free_columns(child, needed)
            return frozenset(name for name, value in expressions if below.issuperset(list_used_columns(value)))
        case Filter(child=child) | SemiJoin(left=child) | Distinct(child=child):
            return find_free_columns(child, asked)
        case Explode(child=child, generator=generator, names=made):
            if asked.isdisjoint(made):
                return find_free_columns(child, asked)
            return find_free_columns(child, asked.difference(made).union(list_used_columns(generator))).union(made)
        case Join(left=left, right=right):
            sides = [side for side in (left, right) if asked.intersection(list_columns(side))]
            return frozenset().union(
                *(find_free_columns(side, asked.intersection(list_columns(side))) for side in sides)
            )
        case Aggregate(child=child, keys=keys):
            return (
                find_free_columns(child, asked).intersection(keys)
                if asked <= set(keys)
                else frozenset(list_columns(node))
            )
        case WindowColumns():
            return _find_free_in_window(node, asked)
        case UnionAll(inputs=inputs, names=own):
            return _find_free_in_all(inputs, own, asked)
        case SetOperation(left=left, right=right, names=own):
            return _find_free_in_all((left, right), own, asked)
        case _:
            assert_never(node)


def _find_free_in_window(node: WindowColumns, asked: frozenset[str]) -> frozenset[str]:
    if asked <= set(node.partition):
        return find_free_columns(node.child, asked).intersection(node.partition)
    if asked <= set(list_columns(node.child)):
        return find_free_columns(node.child, asked.union(node.partition))
    return frozenset(list_columns(node))


def _find_free_in_all(inputs: tuple[Node, ...], names: tuple[str, ...], asked: frozenset[str]) -> frozenset[str]:
    common = frozenset(names)
    for part in inputs:
        own = dict(zip(names, list_columns(part), strict=True))
        below = find_free_columns(part, [own[name] for name in asked])
        common &= {name for name in names if own[name] in below}
    return common


_HARMLESS = (exp.Paren, exp.And, exp.Or, exp.Not, exp.Is)
_LEAVES = (exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Var)
_COMPARED = (
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between),
    *(exp.Coalesce, exp.Like, exp.Trim),
)
"""Expressions that can't fail if their arguments have one type, because the arguments are then not converted."""

_SAFE_FOR_ANY_TYPES = frozenset(
    {"LOWER", "UPPER", "LCASE", "UCASE", "LTRIM", "RTRIM", "BTRIM", "INITCAP", "CONCAT_WS", "MD5", "SHA1", "LENGTH"}
    | {"HASH", "XXHASH64", "ISNULL", "ISNOTNULL"}
)
"""Functions that can't fail for arguments of any type, because Spark converts these to texts without errors."""
_SAFE_FOR_ONE_TYPE = frozenset({"IFNULL", "NVL", "NULLIF", "CONCAT", "REPLACE", "STARTSWITH", "ENDSWITH", "CONTAINS"})
_SAFE_FOR_WHOLE_POSITIONS = frozenset({"SUBSTR", "SUBSTRING", "LEFT", "RIGHT"})
_SAFE_FOR_DATES = frozenset(
    {"YEAR", "QUARTER", "MONTH", "DAY", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "WEEKDAY", "WEEKOFYEAR", "HOUR"}
    | {"MINUTE", "SECOND", "LAST_DAY", "DATE", "TO_DATE"}
)
_MOMENTS = ("date", "timestamp", "timestamp_ntz")
_INEXACT = ("float", "double")


def can_fail(value: exp.Expr, types: Mapping[str, str]) -> bool:
    """Whether `value` can raise an error for some values of its columns; True if this is not certain.

    `types` are the types of the columns by name.
    """
    return not _is_safe(value, types)


def _is_safe(value: exp.Expr, types: Mapping[str, str]) -> bool:
    match value:
        case exp.Cast(this=exp.Literal() as number) if number.is_int and is_integer(type_of(value, types)):
            return len(number.name) < (get_precision_and_scale(type_of(value, types)) or (0, 0))[0]
        case exp.Cast():
            return _are_all_safe((value.this,), types) and _is_lossless_cast(
                type_of(value.this, types), type_of(value, types)
            )
        case exp.Case():
            branches = value.args["ifs"]
            results = [part for part in (*(one.args["true"] for one in branches), value.args.get("default")) if part]
            parts = [*(one.this for one in branches), *results]
            return value.this is None and _are_all_safe(parts, types) and _has_one_type(results, types)
        case exp.Mod():
            by = value.expression.unnest()
            is_number = isinstance(by, exp.Literal) and by.is_int and int(by.name) != 0
            return (
                is_number
                and _are_all_safe((value.this,), types)
                and get_precision_and_scale(type_of(value.this.unnest(), types)) is not None
            )
        case exp.In():
            parts = [value.this, *value.expressions]
            return not value.args.get("query") and _are_all_safe(parts, types) and _has_one_type(parts, types)
        case exp.Add() | exp.Sub() | exp.Mul():
            of_type = type_of(value, types)
            sides = [type_of(side.unnest(), types) for side in (value.this, value.expression)]
            cannot_overflow = bool(of_type and of_type.startswith("decimal")) or set(sides) <= set(_INEXACT)
            return _are_all_safe((value.this, value.expression), types) and cannot_overflow
        case exp.Substring():
            places = [part for part in (value.args.get("start"), value.args.get("length")) if part is not None]
            return _are_all_safe((value.this, *places), types) and _are_whole(places, types)
        case exp.Extract():
            return _are_all_safe((value.expression,), types) and _are_moments((value.expression,), types)
        case exp.Anonymous():
            return _is_safe_call(value.name.upper(), value.expressions, types)
    parts = list(value.iter_expressions())
    if isinstance(value, _COMPARED):
        return _are_all_safe(parts, types) and _has_one_type(parts, types)
    return isinstance(value, _LEAVES) or (isinstance(value, _HARMLESS) and _are_all_safe(parts, types))


def _is_safe_call(name: str, arguments: list[exp.Expr], types: Mapping[str, str]) -> bool:
    if not _are_all_safe(arguments, types):
        return False
    if name == "DATE_TRUNC":
        return isinstance(arguments[0], exp.Literal) and _are_moments(arguments[1:], types)
    if name == "TRUNC":
        return isinstance(arguments[-1], exp.Literal) and _are_moments(arguments[:-1], types)
    if name in _SAFE_FOR_DATES:
        return len(arguments) == 1 and _are_moments(arguments, types)
    if name in _SAFE_FOR_WHOLE_POSITIONS:
        return _are_whole(arguments[1:], types)
    return name in _SAFE_FOR_ANY_TYPES or (name in _SAFE_FOR_ONE_TYPE and _has_one_type(arguments, types))


def _are_all_safe(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool:
    return all(_is_safe(part, types) for part in parts)


def _has_one_type(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool:
    """Whether `parts` have one type or are all numbers, so that Spark combines them without a cast that can fail."""
    kinds = {type_of(part.unnest(), types) for part in parts if not isinstance(part, exp.Null)}
    return len(kinds) <= 1 if None in kinds or not all(map(_is_number, kinds)) else True


def _is_number(of_type: str | None) -> bool:
    return get_precision_and_scale(of_type) is not None or of_type in _INEXACT


def _are_whole(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool:
    return all(is_integer(type_of(part, types)) for part in parts)


def _are_moments(parts: Iterable[exp.Expr], types: Mapping[str, str]) -> bool:
    return all(type_of(part, types) in _MOMENTS for part in parts)


def _is_lossless_cast(of_type: str | None, to: str | None) -> bool:
    """Whether a cast from `of_type` to `to` succeeds for every value."""
    if to == "string" or (of_type is not None and of_type == to):
        return True
    if of_type in _MOMENTS and to in _MOMENTS:
        return True
    one, other = get_precision_and_scale(of_type), get_precision_and_scale(to)
    if one and other:
        return one[1] <= other[1] and one[0] - one[1] <= other[0] - other[1]
    return bool(to in _INEXACT and _is_number(of_type))


def derive_touched_rows(node: Node, names: Names, inputs: Inputs) -> Node:
    """Builds a tree of the columns `names` of added and removed rows of `node`, or of more of its old and new rows.

    Raises NotMaintained if this needs old rows that can't be computed again.
    """
    candidates = require_term(inputs.derive_touched(node, names))
    if has_only_existing(node, names, inputs):
        return candidates
    _check_old_values_known(node, inputs)
    return select_before_and_after(node, names, candidates, names, inputs)


def derive_either_rows(node: Node, names: Names, inputs: Inputs) -> Node:
    """Builds a tree of the columns `names` of all old and new rows of `node`, without other rows.

    Raises NotMaintained if this needs old rows that can't be computed again.
    """
    if has_only_existing(node, names, inputs):
        return inputs.derive_either(node, names)
    _check_old_values_known(node, inputs)
    return select_old_and_new(node, names, inputs)


def has_only_existing(node: Node, names: Names, context: Inputs) -> bool:
    """Whether the rules for `node` derive the columns `names` of existing rows only: old or new rows of `node`."""
    match node:
        case Scan() | SpoolScan() | OneRow():
            return True
        case Projection(child=child, expressions=expressions):
            read = (part for name, value in expressions if name in names for part in list_used_columns(value))
            return has_only_existing(child, tuple(dict.fromkeys(read)), context)
        case Filter(child=child, condition=condition):
            needed = tuple(dict.fromkeys((*names, *list_used_columns(condition))))
            return keeps_condition(node, names, context) and has_only_existing(child, needed, context)
        case Aggregate(child=child, keys=keys):
            return not set(names) <= set(keys) or has_only_existing(child, names, context)
        case WindowColumns(child=child, partition=partition):
            needed = tuple(dict.fromkeys((*names, *partition)))
            return not set(names) <= set(list_columns(child)) or has_only_existing(child, needed, context)
        case Distinct(child=child):
            return has_only_existing(child, names, context)
        case UnionAll(inputs=inputs, names=own):
            at = [own.index(name) for name in names]
            return all(
                has_only_existing(part, tuple(list_columns(part)[place] for place in at), context) for part in inputs
            )
        case _:
            return False


def keeps_condition(node: Filter, names: Names, inputs: Inputs) -> bool:
    """Whether the rules filter by the condition of `node` when they derive the columns `names`.

    They leave the condition out if it depends on the time, and that has moved; if its columns need a further scan or
    join; if it reads a column in `known.chosen`; or if it can raise an error for rows that do not exist.
    """
    needed = list_used_columns(node.condition)
    if has_moved_clock(node, inputs):
        return False
    if not inputs.known.chosen.isdisjoint(needed) or not find_free_columns(node.child, names).issuperset(needed):
        return False
    is_safe = not can_fail(node.condition, inputs.known.types)
    return is_safe or has_only_existing(node.child, tuple(dict.fromkeys((*names, *needed))), inputs)


def has_moved_clock(node: Filter, inputs: Inputs) -> bool:
    """Whether the condition of a filter may be true for other rows now, because time has passed."""
    return CLOCK in inputs.changed and is_timed(node)


def _check_old_values_known(node: Node, inputs: Inputs) -> None:
    """Raises NotMaintained if the old rows of `node` can't be computed again.

    This is so if a column in `known.chosen` determines the rows of an operator.
    """
    if any(not inputs.known.chosen.isdisjoint(_list_identifying_columns(part)) for part in walk_tree(node)):
        raise NotMaintained(
            "NOT_REPEATABLE", "which rows existed before depends on a value that may differ if it is recomputed"
        )


def _list_identifying_columns(node: Node) -> tuple[str, ...]:
    """Lists the columns of an operator whose values determine the rows that it returns."""
    match node:
        case Filter(condition=condition):
            return list_used_columns(condition)
        case Join(on=on) | SemiJoin(on=on):
            return list_used_columns(on)
        case Aggregate(keys=keys):
            return keys
        case Explode(generator=generator):
            return list_used_columns(generator)
        case Distinct() | SetOperation():
            return list_columns(node)
        case _:
            return ()


Read = Callable[[Node, Names], Node | None]
ReadRows = Callable[[Node, Names, Inputs], Node]


def select_computed(
    node: Node, values: Sequence[exp.Expr], names: Names, inputs: Inputs, read: Read, read_rows: ReadRows
) -> Node:
    """Derives rows of `node` with the columns `names` and the columns that the expressions in `values` read.

    `read` derives the rows, to which it may add rows that exist neither before nor after the changes. So if an
    expression can raise an error, `read_rows` derives them instead, without such rows but at a higher cost.
    """
    needed = pick_some(
        tuple(dict.fromkeys((*names, *(name for value in values for name in list_used_columns(value))))), node
    )
    if any(can_fail(value, inputs.known.types) for value in values):
        return read_rows(node, needed, inputs)
    return require_term(read(node, needed))
