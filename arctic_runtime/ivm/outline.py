"""Draws a tree of operators as a short outline in text, for `explain`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sqlglot import exp
from typing_extensions import assert_never

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
    list_children,
)
from arctic_runtime.ivm.frontend.clock_functions import show_clock
from arctic_runtime.model.names import TableName
from arctic_runtime.sql.spark_sql import write_sql


def draw_outline(node: Node, changed: Collection[TableName], depth: int = 0) -> Iterator[str]:
    """Yields one line per operator of a tree, with its inputs indented below it; projections are left out.

    Sources in `changed` are marked. `depth` is the indentation of the first line, in steps of two spaces.
    """
    if isinstance(node, Projection):
        yield from draw_outline(node.child, changed, depth)
        return
    yield "  " * depth + _label_node(node, changed)
    for child in list_children(node):
        yield from draw_outline(child, changed, depth + 1)


def _label_node(node: Node, changed: Collection[TableName]) -> str:  # noqa: C901 - one case per operator
    match node:
        case Scan(source=source):
            return f"{source}{' (changed)' if source in changed else ''}"
        case Filter(condition=condition):
            return f"where {_format_expression(condition)}"
        case Join(kind=kind, on=on):
            return f"{kind} join{f' on {_format_expression(on)}' if on is not None else ''}"
        case SemiJoin(kind=kind, on=on):
            return f"{kind} join{f' on {_format_expression(on)}' if on is not None else ''}"
        case Aggregate(keys=keys):
            return f"group by {_format_names(keys)}" if keys else "aggregate of all rows"
        case WindowColumns(partition=partition):
            return f"window partitioned by {_format_names(partition)}" if partition else "window over all rows"
        case Explode():
            return "explode"
        case Distinct():
            return "distinct"
        case UnionAll():
            return "union all"
        case SetOperation(kind=kind):
            return kind
        case SpoolScan(name=name):
            return name
        case OneRow():
            return "one row"
        case Projection():
            return "select"
        case _:
            assert_never(node)


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(_strip_number(name) for name in names)


def _strip_number(name: str) -> str:
    """Returns a column's name without the number that makes it unique in its tree."""
    return name.rpartition("#")[0] or name


def _format_expression(expression: exp.Expr) -> str:
    def rename_column(node: exp.Expr) -> exp.Expr:
        return exp.column(_strip_number(node.name)) if isinstance(node, exp.Column) else node

    text = show_clock(write_sql(expression.transform(rename_column)))
    return text if len(text) <= 100 else f"{text[:97]}..."
