"""Translates conditions on a table's columns to Iceberg's expressions, by which files are left out.

What can't be translated is left out, so that all rows for which the conditions are true are in the files that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import split_conjuncts
from arctic_runtime.ivm.algebra.expressions import unwrap_parens
from arctic_runtime.query.times import read_date, read_timestamp

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.types import NestedField

_MIRRORED: Mapping[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NullSafeEQ: exp.NullSafeEQ,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


def build_file_filter(conditions: Iterable[exp.Expr], fields: Mapping[str, NestedField]) -> BooleanExpression:
    """Builds the filter of files for rows for which all `conditions` are true.

    `fields` are the columns by their names in the conditions; a column without one is not pruned by.
    """
    from pyiceberg.expressions import AlwaysTrue, And

    filters = [
        made
        for condition in conditions
        for part in split_conjuncts(condition)
        if (made := _convert(part, fields)) is not None
    ]
    return And(*filters) if len(filters) > 1 else filters[0] if filters else AlwaysTrue()


def _convert(node: exp.Expr, fields: Mapping[str, NestedField]) -> BooleanExpression | None:
    from pyiceberg import expressions as ice
    from pyiceberg.expressions.literals import literal

    node = unwrap_parens(node)
    match node:
        case exp.And() | exp.Or():
            sides = [_convert(side, fields) for side in (node.this, node.expression)]
            known = [side for side in sides if side is not None]
            if len(known) < 2:
                return known[0] if known and isinstance(node, exp.And) else None
            return (ice.And if isinstance(node, exp.And) else ice.Or)(*known)
        case exp.Between() if not node.args.get("symmetric"):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            return _convert(exp.And(this=low, expression=high), fields)
        case exp.In() if node.expressions:
            field = _find_field(node.this, fields)
            values = [_read_value(part, field) for part in node.expressions] if field is not None else []
            if field is None or any(value is None for value in values):
                return None
            return ice.In(term=ice.Reference(field.name), values=set(map(literal, values)))
        case exp.Is() if isinstance(node.expression, exp.Null):
            field = _find_field(node.this, fields)
            return None if field is None else ice.IsNull(term=ice.Reference(field.name))
    if type(node) not in _MIRRORED or not isinstance(node, exp.Binary):
        return None
    return _convert_comparison(type(node), node.this, node.expression, fields) or _convert_comparison(
        _MIRRORED[type(node)], node.expression, node.this, fields
    )


def _convert_comparison(
    kind: type[exp.Expr], value: exp.Expr, constant: exp.Expr, fields: Mapping[str, NestedField]
) -> BooleanExpression | None:
    from pyiceberg import expressions as ice

    field = _find_field(value, fields)
    literal = None if field is None else _read_value(constant, field)
    if field is None or literal is None:
        return None
    comparisons: Mapping[type[exp.Expr], Callable[..., BooleanExpression]] = {
        exp.EQ: ice.EqualTo,
        exp.NullSafeEQ: ice.EqualTo,
        exp.GT: ice.GreaterThan,
        exp.GTE: ice.GreaterThanOrEqual,
        exp.LT: ice.LessThan,
        exp.LTE: ice.LessThanOrEqual,
    }
    return comparisons[kind](term=ice.Reference(field.name), value=literal)


def _find_field(node: exp.Expr, fields: Mapping[str, NestedField]) -> NestedField | None:
    """Returns the column that a side of a condition is; also under the mark of `type_coercion`, a lone coalesce."""
    bare = unwrap_parens(node)
    if isinstance(bare, exp.Coalesce) and not bare.expressions:
        bare = unwrap_parens(bare.this)
    return fields.get(bare.name) if isinstance(bare, exp.Column) else None


def _read_value(node: exp.Expr, field: NestedField) -> Any:
    """Reads a constant as a value of a column's type; None if it is no constant, or not exactly of this type."""
    from pyiceberg import types

    bare = unwrap_parens(node)
    if isinstance(bare, exp.Coalesce) and not bare.expressions:
        bare = unwrap_parens(bare.this)
    if isinstance(bare, exp.Cast) and isinstance(bare.this, exp.Literal) and bare.this.is_string:
        if bare.is_type(exp.DType.DATE) and not isinstance(field.field_type, types.DateType):
            return None
        bare = bare.this
    sign, literal = (-1, bare.this) if isinstance(bare, exp.Neg) else (1, bare)
    if not isinstance(literal, exp.Literal):
        return None
    with suppress(ValueError, ArithmeticError):
        match field.field_type:
            case types.IntegerType() | types.LongType() if not literal.is_string:
                return sign * int(literal.name.rstrip("lL"))
            case types.DecimalType(scale=scale) if not literal.is_string:
                value = sign * Decimal(literal.name.rstrip("lL"))
                return value.quantize(Decimal(1).scaleb(-scale)) if value == round(value, scale) else None
            case types.StringType() if literal.is_string and bare is literal:
                return None if "\\" in (literal.args.get("written") or "") else literal.name
            case types.DateType() if literal.is_string:
                return read_date(literal.name)
            case types.TimestampType() if literal.is_string:
                return _to_iso(read_timestamp(literal.name, False))
            case types.TimestamptzType() if literal.is_string:
                return _to_iso(read_timestamp(literal.name, True))
    return None


def _to_iso(written: str | None) -> str | None:
    if written is None:
        return None
    moment = written.replace(" ", "T", 1)
    return f"{moment}:00" if moment.endswith("+00") else moment
