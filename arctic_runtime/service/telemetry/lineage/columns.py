"""Column lineage of a query: the source columns on which each result column, and the set of rows, depend.

The terms are those of OpenLineage's column lineage facet: a use is direct if a value comes from the column, and
indirect if the column only determines which value or which rows the result has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.aggregate_functions import find_aggregate_function
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
from arctic_runtime.model.names import TableName

Kind = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION", "JOIN", "GROUP_BY", "FILTER", "WINDOW", "CONDITIONAL"]

_DIRECT: tuple[Kind, ...] = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
"""Kinds of direct uses; if one use is nested in another, the kind that is later in this order is reported."""

_HASHES = frozenset(
    {"crc32", "hash", "mask", "md5", "md5digest", "sha", "sha1digest", "sha2", "sha2digest", "xxhash64"}
)
"""Names of functions whose result does not reveal their argument."""


@dataclass(frozen=True, order=True)
class SourceColumnRead:
    """A column of a table that the query reads, directly or through views."""

    table: TableName
    column: str


@dataclass(frozen=True, order=True)
class Use:
    """A use of a column; `is_masking` is whether the result hides the column's values, as a hash or a count does."""

    kind: Kind
    is_masking: bool = False

    @property
    def is_direct(self) -> bool:
        return self.kind in _DIRECT

    def compose_with(self, inner: Use) -> Use:
        """Returns the use of a column that `inner` uses for a value, to which this use is then applied."""
        if not self.is_direct:
            return self
        if not inner.is_direct:
            return inner
        kind = max(self.kind, inner.kind, key=_DIRECT.index)
        return Use(kind, self.is_masking or inner.is_masking)


_OF_ONE_ROW = (exp.FirstValue, exp.Lag, exp.LastValue, exp.Lead, exp.NthValue)
"""Window functions that return the value of a single row; sqlglot classifies them as aggregates."""

Uses = Mapping[SourceColumnRead, frozenset[Use]]


@dataclass(frozen=True)
class ColumnLineage:
    """Uses of source columns: by each result column (`columns`), and by the decision which rows exist (`rows`)."""

    columns: Mapping[str, Uses]
    rows: Uses


def compute_column_lineage(tree: Node, outputs: Iterable[tuple[str, str]]) -> ColumnLineage:
    """Computes the column lineage of an analysed query.

    `outputs` are pairs of a result column and the column of `tree` that it is. A source column that is not listed has
    no influence on the result. Result columns whose names Spark generates are left out.
    """
    lineage = _compute_lineage(tree)
    return ColumnLineage({name: lineage.columns[made] for name, made in outputs if name}, lineage.rows)


_NodeLineage = ColumnLineage
"""The lineage of a node of the operator tree, with column names of the tree."""

_AS_IT_IS = Use("IDENTITY")


def _compute_lineage(node: Node) -> _NodeLineage:  # noqa: C901 - one case per operator
    match node:
        case Scan(source=source, fields=fields):
            own: dict[str, Uses] = {
                name: {SourceColumnRead(source, field): frozenset({_AS_IT_IS})} for name, field in fields
            }
            return _NodeLineage({name: own.get(name, {}) for name in list_columns(node)}, {})
        case SpoolScan(names=names):
            return _NodeLineage({name: {} for name in names}, {})
        case OneRow():
            return _NodeLineage({}, {})
        case Projection(child=child, expressions=expressions):
            below = _compute_lineage(child)
            return _NodeLineage(
                {name: _compute_expression_uses(below, value) for name, value in expressions}, below.rows
            )
        case Filter(child=child, condition=condition):
            below = _compute_lineage(child)
            return _add_deciding_uses(below, "FILTER", _compute_expression_uses(below, condition))
        case Join(left=left, right=right, on=on):
            both = _combine_sides(_compute_lineage(left), _compute_lineage(right))
            return both if on is None else _add_deciding_uses(both, "JOIN", _compute_expression_uses(both, on))
        case SemiJoin(left=left, right=right, on=on):
            both = _combine_sides(_compute_lineage(left), _compute_lineage(right))
            left_lineage = _NodeLineage({name: both.columns[name] for name in list_columns(left)}, both.rows)
            return (
                left_lineage
                if on is None
                else _add_deciding_uses(left_lineage, "JOIN", _compute_expression_uses(both, on))
            )
        case Aggregate(child=child, keys=keys, aggregates=aggregates):
            below = _compute_lineage(child)
            made = {name: _compute_expression_uses(below, value) for name, value in aggregates}
            groups = {key: below.columns[key] for key in keys}
            return _add_deciding_uses(_NodeLineage({**groups, **made}, below.rows), "GROUP_BY", *groups.values())
        case WindowColumns(child=child, expressions=expressions):
            below = _compute_lineage(child)
            windows = {name: _compute_expression_uses(below, value) for name, value in expressions}
            return _NodeLineage({**below.columns, **windows}, below.rows)
        case Explode(child=child, generator=generator, names=names):
            below = _compute_lineage(child)
            rows = _compute_expression_uses(below, generator)
            return _add_deciding_uses(
                _NodeLineage({**below.columns, **dict.fromkeys(names, rows)}, below.rows), "JOIN", rows
            )
        case Distinct(child=child):
            below = _compute_lineage(child)
            return _add_deciding_uses(below, "GROUP_BY", *below.columns.values())
        case UnionAll(inputs=inputs, names=names):
            parts = [_compute_positional_lineage(part, names) for part in inputs]
            together = {name: _merge_uses(part.columns[name] for part in parts) for name in names}
            return _NodeLineage(together, _merge_uses(part.rows for part in parts))
        case SetOperation(left=left, right=right, names=names):
            left_lineage, other = (_compute_positional_lineage(part, names) for part in (left, right))
            lineage = _NodeLineage(left_lineage.columns, _merge_uses((left_lineage.rows, other.rows)))
            return _add_deciding_uses(lineage, "FILTER", *left_lineage.columns.values(), *other.columns.values())
        case _:
            assert_never(node)


def _compute_positional_lineage(node: Node, names: tuple[str, ...]) -> _NodeLineage:
    """Returns the lineage of `node` with its columns renamed to `names`, by position."""
    lineage = _compute_lineage(node)
    return _NodeLineage(
        {name: lineage.columns[tree_name] for name, tree_name in zip(names, list_columns(node), strict=True)},
        lineage.rows,
    )


def _combine_sides(left: _NodeLineage, right: _NodeLineage) -> _NodeLineage:
    return _NodeLineage({**left.columns, **right.columns}, _merge_uses((left.rows, right.rows)))


def _add_deciding_uses(lineage: _NodeLineage, kind: Kind, *decided_by: Uses) -> _NodeLineage:
    """Returns `lineage` with the columns in `decided_by` added, as uses of `kind`, to those that determine the rows."""
    decides = {origin: frozenset({Use(kind)}) for uses in decided_by for origin in uses}
    return replace(lineage, rows=_merge_uses((lineage.rows, decides)))


def _merge_uses(parts: Iterable[Uses]) -> Uses:
    uses_by_origin: dict[SourceColumnRead, frozenset[Use]] = {}
    for part in parts:
        for origin, uses in part.items():
            uses_by_origin[origin] = uses_by_origin.get(origin, frozenset()) | uses
    return uses_by_origin


def _compute_expression_uses(below: _NodeLineage, expression: exp.Expr) -> Uses:
    """Returns the uses of source columns by an expression; `below` is the lineage of the expression's input columns."""
    uses_by_origin: dict[SourceColumnRead, frozenset[Use]] = {}
    for name, use in _walk_column_uses(expression):
        for origin, uses in below.columns[name].items():
            uses_by_origin[origin] = uses_by_origin.get(origin, frozenset()) | {
                use.compose_with(inner) for inner in uses
            }
    return uses_by_origin


def _walk_column_uses(expression: exp.Expr) -> Iterator[tuple[str, Use]]:
    """Yields each column that an expression reads, with the expression's use of the column."""
    waiting = [(expression, _AS_IT_IS)]
    while waiting:
        part, use = waiting.pop()
        if isinstance(part, exp.Column):
            yield part.name, use
        else:
            waiting += [(below, use.compose_with(inner)) for below, inner in _list_argument_uses(part)]


def _list_argument_uses(part: exp.Expr) -> Iterator[tuple[exp.Expr, Use]]:
    """Yields the arguments of a call or operator, each with the use that the call or operator makes of it."""
    own = _use_by(part)
    for name, value in part.args.items():
        kind = _INDIRECT.get((type(part), name))
        for below in value if isinstance(value, list) else [value]:
            if isinstance(below, exp.Expr):
                yield below, own if kind is None else Use(kind)


_INDIRECT: Mapping[tuple[type[exp.Expr], str], Kind] = {
    (exp.Case, "this"): "CONDITIONAL",
    (exp.If, "this"): "CONDITIONAL",
    (exp.Nvl2, "this"): "CONDITIONAL",
    (exp.Filter, "expression"): "FILTER",
    (exp.Window, "partition_by"): "WINDOW",
    (exp.Window, "order"): "WINDOW",
    (exp.Window, "spec"): "WINDOW",
}
"""Arguments that determine the result without being part of it, with the kind of their use."""


def _use_by(part: exp.Expr) -> Use:
    if isinstance(part, exp.Paren | exp.Alias | exp.Window | exp.Filter):
        return _AS_IT_IS
    if isinstance(part, exp.AggFunc) and not isinstance(part, _OF_ONE_ROW):
        function = find_aggregate_function(part)
        return Use("AGGREGATION", function is not None and function.is_masking)
    name = part.name if isinstance(part, exp.Anonymous) else part.key
    return Use("TRANSFORMATION", name.lower() in _HASHES)
