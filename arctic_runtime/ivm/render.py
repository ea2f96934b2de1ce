"""A tree as SQL: each operator one select over its inputs, which the engine's optimizer folds together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.expressions import column
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Image,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    Side,
    SpoolScan,
    UnionAll,
    Window,
    beside,
    columns,
)
from arctic_runtime.model.names import TableName, image_view
from arctic_runtime.model.spark_sql import write


def input_name(source: TableName, image: Image) -> str:
    """The name under which an image of a source is at hand when a plan is executed."""
    return image_view(image, source)


def render(node: Node) -> str:
    """The SQL of a tree; it reads each source's images by `input_name`, and given rows by their name."""
    return write(query(node))


def query(node: Node) -> exp.Query:  # noqa: C901 - one case per operator
    """The tree as a query of sqlglot's."""
    match node:
        case Scan(source=source, fields=fields, image=image):
            read = [_named(column(field), name) for name, field in (*fields, *beside(fields, image))]
            return _select(read).from_(_table(input_name(source, image)), copy=False)
        case SpoolScan(name=name, names=names):
            return _select(column(part) for part in names).from_(_table(name), copy=False)
        case OneRow():
            return _select(())
        case Project(child=child, expressions=expressions):
            return _select(_named(value, name) for name, value in expressions).from_(_input(child, "t"), copy=False)
        case Filter(child=child, condition=condition):
            return _all().from_(_input(child, "t"), copy=False).where(condition.copy(), copy=False)
        case Join(kind=kind):
            return _joined(node, **_JOINS[kind])
        case SemiJoin(kind=kind):
            return _joined(node, side="LEFT", kind=kind.upper())
        case Aggregate(child=child, keys=keys, aggregates=aggregates):
            found = [*(column(key) for key in keys), *(_named(value, name) for name, value in aggregates)]
            return (
                _select(found or [exp.Count(this=exp.Star(), big_int=True)])
                .from_(_input(child, "t"), copy=False)
                .group_by(*(column(key) for key in keys), copy=False)
            )
        case Window(child=child, expressions=expressions):
            found = [*(column(name) for name in columns(child)), *(_named(value, name) for name, value in expressions)]
            return _select(found).from_(_input(child, "t"), copy=False)
        case Explode():
            return _exploded(node)
        case Distinct(child=child):
            return _all().distinct(copy=False).from_(_input(child, "t"), copy=False)
        case UnionAll(inputs=inputs, names=names):
            return _union(inputs, names)
        case SetOperation(kind=kind, all=is_all, left=left, right=right, names=names):
            of = exp.Intersect if kind == "intersect" else exp.Except
            return of(this=_renamed(left, names), expression=_renamed(right, names), distinct=not is_all)
        case _:
            assert_never(node)


_JOINS: dict[str, dict[str, str]] = {
    "inner": {"kind": "INNER"},
    "left": {"side": "LEFT"},
    "full": {"side": "FULL"},
}


_SIDES: dict[Side, str] = {"left": "l", "right": "r"}


def _joined(node: Join | SemiJoin, **kind: str) -> exp.Select:
    on = node.on.copy() if node.on else exp.true()
    joined = exp.Join(this=_input(node.right, _SIDES["right"]), on=on, **kind)
    found = _all().from_(_input(node.left, _SIDES["left"]), copy=False).join(joined, copy=False)
    if node.broadcast:
        broadcast = exp.Anonymous(this="BROADCAST", expressions=[exp.to_identifier(_SIDES[node.broadcast])])
        found.set("hint", exp.Hint(expressions=[broadcast]))
    return found


def _table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _input(node: Node, alias: str) -> exp.Subquery:
    return query(node).subquery(alias, copy=False)


def _select(found: Iterable[exp.Expr]) -> exp.Select:
    """A select of these; where rows matter and no column does, of a constant."""
    return exp.Select(expressions=list(found) or [exp.true()])


def _all() -> exp.Select:
    return exp.Select(expressions=[exp.Star()])


def _named(value: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(value.copy(), name, quoted=True)


def _renamed(node: Node, names: Sequence[str]) -> exp.Select:
    pairs = zip(columns(node), names, strict=True)
    return _select(_named(column(own), name) for own, name in pairs).from_(_input(node, "t"), copy=False)


def _union(inputs: Sequence[Node], names: Sequence[str]) -> exp.Query:
    first, *others = [_renamed(node, names) for node in inputs]
    found: exp.Query = first
    for other in others:
        found = exp.Union(this=found, expression=other, distinct=False)
    return found


def _exploded(node: Explode) -> exp.Select:
    lateral = exp.Lateral(
        this=node.generator.copy(),
        view=True,
        outer=node.outer,
        alias=exp.TableAlias(
            this=exp.to_identifier("g", quoted=True),
            columns=[exp.to_identifier(name, quoted=True) for name in node.names],
        ),
    )
    found = _select(column(name) for name in columns(node)).from_(_input(node.child, "t"), copy=False)
    found.append("laterals", lateral)
    return found
