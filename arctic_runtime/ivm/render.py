"""Renders an operator tree: as SQL, and as a short outline in text, for `explain`.

Each operator is one select over its inputs, which Spark's optimizer merges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.clock import show_clock
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Image,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    Side,
    SpoolScan,
    UnionAll,
    WindowColumns,
    list_children,
    list_columns,
    list_image_fields,
)
from arctic_runtime.model.names import TableName, format_image_view
from arctic_runtime.sql.spark_sql import write_sql


def name_input(source: TableName, image: Image) -> str:
    """Name of the temporary view from which a plan reads the rows or changes of a source that `image` selects."""
    return format_image_view(image, source)


def render_sql(node: Node) -> str:
    """Renders a tree of operators as the text of a query.

    The query reads sources from the views that `name_input` names, and spools from views with the spools' names.
    """
    return write_sql(build_query(node))


def build_query(node: Node) -> exp.Query:  # noqa: C901 - one case per operator
    """Builds the query that computes a tree of operators, as a sqlglot expression."""
    match node:
        case Scan(source=source, fields=fields, image=image):
            read = [
                _alias_value(build_column(field), name) for name, field in (*fields, *list_image_fields(fields, image))
            ]
            return _build_select(read).from_(_build_table(name_input(source, image)), copy=False)
        case SpoolScan(name=name, names=names):
            return _build_select(build_column(part) for part in names).from_(_build_table(name), copy=False)
        case OneRow():
            return _build_select(())
        case Projection(child=child, expressions=expressions):
            return _build_select(_alias_value(value, name) for name, value in expressions).from_(
                _build_input(child, "t"), copy=False
            )
        case Filter(child=child, condition=condition):
            return _select_all().from_(_build_input(child, "t"), copy=False).where(condition.copy(), copy=False)
        case Join(kind=kind):
            return _build_join(node, **_JOINS[kind])
        case SemiJoin(kind=kind):
            return _build_join(node, side="LEFT", kind=kind.upper())
        case Aggregate(child=child, keys=keys, aggregates=aggregates):
            selected = [
                *(build_column(key) for key in keys),
                *(_alias_value(value, name) for name, value in aggregates),
            ]
            return (
                _build_select(selected or [exp.Count(this=exp.Star(), big_int=True)])
                .from_(_build_input(child, "t"), copy=False)
                .group_by(*(build_column(key) for key in keys), copy=False)
            )
        case WindowColumns(child=child, expressions=expressions):
            selected = [
                *(build_column(name) for name in list_columns(child)),
                *(_alias_value(value, name) for name, value in expressions),
            ]
            return _build_select(selected).from_(_build_input(child, "t"), copy=False)
        case Explode():
            return _build_explode(node)
        case Distinct(child=child):
            return _select_all().distinct(copy=False).from_(_build_input(child, "t"), copy=False)
        case UnionAll(inputs=inputs, names=names):
            return _build_union(inputs, names)
        case SetOperation(kind=kind, all=is_all, left=left, right=right, names=names):
            set_operation = exp.Intersect if kind == "intersect" else exp.Except
            return set_operation(
                this=_build_renamed(left, names), expression=_build_renamed(right, names), distinct=not is_all
            )
        case _:
            assert_never(node)


_JOINS: dict[str, dict[str, str]] = {
    "inner": {"kind": "INNER"},
    "left": {"side": "LEFT"},
    "full": {"side": "FULL"},
}


_SIDES: dict[Side, str] = {"left": "l", "right": "r"}


def _build_join(node: Join | SemiJoin, **kind: str) -> exp.Select:
    on = node.on.copy() if node.on else exp.true()
    joined = exp.Join(this=_build_input(node.right, _SIDES["right"]), on=on, **kind)
    select_node = _select_all().from_(_build_input(node.left, _SIDES["left"]), copy=False).join(joined, copy=False)
    if node.broadcast:
        broadcast = exp.Anonymous(this="BROADCAST", expressions=[exp.to_identifier(_SIDES[node.broadcast])])
        select_node.set("hint", exp.Hint(expressions=[broadcast]))
    return select_node


def _build_table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _build_input(node: Node, alias: str) -> exp.Subquery:
    return build_query(node).subquery(alias, copy=False)


def _build_select(selected: Iterable[exp.Expr]) -> exp.Select:
    """Builds a select of the expressions in `selected`; if there are none, it selects a constant, to keep the rows."""
    return exp.Select(expressions=list(selected) or [exp.true()])


def _select_all() -> exp.Select:
    return exp.Select(expressions=[exp.Star()])


def _alias_value(value: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(value.copy(), name, quoted=True)


def _build_renamed(node: Node, names: Sequence[str]) -> exp.Select:
    pairs = zip(list_columns(node), names, strict=True)
    return _build_select(_alias_value(build_column(own), name) for own, name in pairs).from_(
        _build_input(node, "t"), copy=False
    )


def _build_union(inputs: Sequence[Node], names: Sequence[str]) -> exp.Query:
    first, *others = [_build_renamed(node, names) for node in inputs]
    united: exp.Query = first
    for other in others:
        united = exp.Union(this=united, expression=other, distinct=False)
    return united


def _build_explode(node: Explode) -> exp.Select:
    lateral = exp.Lateral(
        this=node.generator.copy(),
        view=True,
        outer=node.outer,
        alias=exp.TableAlias(
            this=exp.to_identifier("g", quoted=True),
            columns=[exp.to_identifier(name, quoted=True) for name in node.names],
        ),
    )
    select_node = _build_select(build_column(name) for name in list_columns(node)).from_(
        _build_input(node.child, "t"), copy=False
    )
    select_node.append("laterals", lateral)
    return select_node


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
            return f"where {format_expression(condition)}"
        case Join(kind=kind, on=on):
            return f"{kind} join{f' on {format_expression(on)}' if on is not None else ''}"
        case SemiJoin(kind=kind, on=on):
            return f"{kind} join{f' on {format_expression(on)}' if on is not None else ''}"
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


def format_expression(expression: exp.Expr) -> str:
    """Formats an expression over a tree's columns for users, with the columns' own names, in at most 100 characters."""

    def rename_column(node: exp.Expr) -> exp.Expr:
        return exp.column(_strip_number(node.name)) if isinstance(node, exp.Column) else node

    text = show_clock(write_sql(expression.transform(rename_column)))
    return text if len(text) <= 100 else f"{text[:97]}..."
