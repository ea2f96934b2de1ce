"""Turns window functions into Window operators, one for each distinct PARTITION BY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import Form, build_column, get_form, transform_expression, walk_parts
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node, Projection, WindowColumns, list_columns
from arctic_runtime.ivm.frontend.functions import walk_outside_queries
from arctic_runtime.ivm.frontend.scope import Names

_SPECIFIED = ("partition_by", "order", "spec")


def inline_window_names(expression: exp.Expr, named: Sequence[exp.Window]) -> exp.Expr:
    """Replaces window names, as in `sum(x) over w`, by their definitions; `named` are those of the WINDOW clause."""
    known = {window.name.lower(): window for window in named}

    def visit_node(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node.copy()
        if isinstance(node, exp.Window) and node.args.get("alias"):
            return _resolve_window_name(node, known)
        return node

    has_window = type(expression) is not exp.Column and any(
        isinstance(part, exp.Window) for part in walk_parts(expression)
    )
    return expression.transform(visit_node) if has_window else expression


def compute_windows(node: Node, expressions: Sequence[exp.Expr], names: Names) -> tuple[Node, tuple[exp.Expr, ...]]:
    """Adds a column to `node` for each window function in `expressions`, and replaces the functions by the columns."""
    calls = {
        get_form(part): part
        for expression in expressions
        if type(expression) is not exp.Column
        for part in walk_outside_queries(expression)
        if isinstance(part, exp.Window)
    }
    if not calls:
        return node, tuple(expressions)
    node, partitions = _compute_partitions(node, list(calls.values()), names)
    made = {key: names.make_fresh("window", names.type_of(call)) for key, call in calls.items()}
    for partition in dict.fromkeys(partitions[key] for key in calls):
        own = tuple(
            (made[key], _set_partition(call, partition)) for key, call in calls.items() if partitions[key] == partition
        )
        node = WindowColumns(node, partition, own)
    return node, tuple(_replace_windows(expression, made) for expression in expressions)


def _resolve_window_name(window: exp.Window, known: Mapping[str, exp.Window]) -> exp.Window:
    """Replaces a window's name by its definition in `known`, which may in turn refer to another window by name."""
    definition = window
    followed: set[str] = set()
    while definition.args.get("alias"):
        name = definition.args["alias"].name.lower()
        if name in followed or name not in known or any(definition.args.get(part) for part in _SPECIFIED):
            raise NotMaintained("UNSUPPORTED", f"the window {name} is not defined, or changed where it is used")
        followed.add(name)
        definition = known[name]
    parts = {part: definition.args[part] for part in _SPECIFIED if definition.args.get(part)}
    return exp.Window(this=window.this.copy(), over="OVER", **_copy_parts(parts))


def _copy_parts(parts: Mapping[str, exp.Expr | list[exp.Expr]]) -> dict[str, exp.Expr | list[exp.Expr]]:
    return {
        name: [part.copy() for part in value] if isinstance(value, list) else value.copy()
        for name, value in parts.items()
    }


def _compute_partitions(
    node: Node, calls: Sequence[exp.Window], names: Names
) -> tuple[Node, dict[Form, tuple[str, ...]]]:
    """Adds to `node` a column for each PARTITION BY expression that is no plain column.

    The second result maps the form (see `get_form`) of each call to the names of its partition columns.
    """
    computed: dict[Form, tuple[str, exp.Expr]] = {}
    for call in calls:
        for key in call.args.get("partition_by") or []:
            if not isinstance(key, exp.Column) and get_form(key) not in computed:
                computed[get_form(key)] = (names.make_fresh("partition", names.type_of(key)), key)
    if computed:
        node = Projection(node, (*((name, build_column(name)) for name in list_columns(node)), *computed.values()))
    partitions = {}
    for call in calls:
        keys = call.args.get("partition_by") or []
        own = {key.name if isinstance(key, exp.Column) else computed[get_form(key)][0] for key in keys}
        partitions[get_form(call)] = tuple(sorted(own))
    return node, partitions


def _set_partition(call: exp.Window, partition: Sequence[str]) -> exp.Expr:
    window_call = call.copy()
    window_call.set("partition_by", [build_column(name) for name in partition])
    return window_call


def _replace_windows(expression: exp.Expr, made: Mapping[Form, str]) -> exp.Expr:
    def visit_node(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node.copy()
        return build_column(made[get_form(node)]) if isinstance(node, exp.Window) else node

    return transform_expression(expression, visit_node)
