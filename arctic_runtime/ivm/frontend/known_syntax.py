"""Syntax inside expressions that the analysis knows: an expression computed from one row, or a part of a call.

Spark's comparison of a query with what is written back of it proves how a text is parsed, and not how a parsed node is
analysed: a node that the analysis does not know would be written back as it is, and be taken for a value of one row. So
all other syntax is refused, such as `TRANSFORM (…) USING 'script'`, which returns any rows.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

_OPERATORS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe, exp.Paren),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.All, exp.Any, exp.Exists),
    *(exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Collate, exp.Bracket, exp.Dot, exp.Tuple),
)

_VALUES = (exp.Column, exp.Identifier, exp.Literal, exp.HexString, exp.Boolean, exp.Null, exp.Interval, exp.Star)

_CALLS = (exp.Extract, exp.Overlay, exp.StrPosition, exp.Substring, exp.Transform, exp.Trim)
"""Calls with a syntax of their own, and `transform` with a lambda."""

_PARTS_OF_CALLS = (
    *(exp.Alias, exp.DataType, exp.Distinct, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.Kwarg, exp.Lambda),
    *(exp.Order, exp.Ordered, exp.Var, exp.Where, exp.Window, exp.WindowSpec, exp.WithinGroup),
)

KNOWN_SYNTAX: Final = frozenset({*_OPERATORS, *_VALUES, *_CALLS, *_PARTS_OF_CALLS})
"""Classes of nodes in expressions that the analysis knows, besides calls of functions by their names."""
