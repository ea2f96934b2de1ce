"""A tree in a few lines for people."""

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
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    Window,
    children,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.spark_sql import write


def outline(node: Node, changed: Collection[TableName], depth: int = 0) -> Iterator[str]:
    """One line per operator, its inputs below it and further in; plain projections are left out."""
    if isinstance(node, Project):
        yield from outline(node.child, changed, depth)
        return
    yield "  " * depth + _label(node, changed)
    for child in children(node):
        yield from outline(child, changed, depth + 1)


def _label(node: Node, changed: Collection[TableName]) -> str:  # noqa: C901 - one case per operator
    match node:
        case Scan(source=source):
            return f"{source}{' (changed)' if source in changed else ''}"
        case Filter(condition=condition):
            return f"where {_shown(condition)}"
        case Join(kind=kind, on=on):
            return f"{kind} join{f' on {_shown(on)}' if on is not None else ''}"
        case SemiJoin(kind=kind, on=on):
            return f"{kind} join{f' on {_shown(on)}' if on is not None else ''}"
        case Aggregate(keys=keys):
            return f"group by {_listed(keys)}" if keys else "aggregate of all rows"
        case Window(partition=partition):
            return f"window partitioned by {_listed(partition)}" if partition else "window over all rows"
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
        case Project():
            return "select"
        case _:
            assert_never(node)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(_plain(name) for name in names)


def _plain(name: str) -> str:
    """A column's name without the number that makes it unique in its tree."""
    return name.rpartition("#")[0] or name


def _shown(expression: exp.Expr) -> str:
    def renamed(node: exp.Expr) -> exp.Expr:
        return exp.column(_plain(node.name)) if isinstance(node, exp.Column) else node

    text = write(expression.transform(renamed))
    return text if len(text) <= 100 else f"{text[:97]}..."
