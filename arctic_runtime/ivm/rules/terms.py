"""Functions with which rules build trees: projections, multiplicities, unions and images of sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.clock import CLOCK, at_old_clock
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    MULTIPLICITY,
    Filter,
    Image,
    Node,
    Projection,
    Scan,
    UnionAll,
    is_timed,
    list_columns,
    list_sources,
    map_children,
)
from arctic_runtime.model.names import TableName


def has_changed(node: Node, changed: frozenset[TableName]) -> bool:
    """Whether a tree reads one of the sources in `changed`."""
    return not changed.isdisjoint(list_sources(node))


def read_image(node: Node, image: Image, changed: frozenset[TableName]) -> Node:
    """Returns the tree with each scan of a source in `changed` replaced by a scan of the source's `image`.

    If the clock is in `changed`, conditions that depend on it are those of the same image.
    """
    if isinstance(node, Scan):
        return replace(node, image=image) if node.source in changed else node
    if isinstance(node, Filter) and is_timed(node) and CLOCK in changed:
        child = read_image(node.child, image, changed)
        then = at_old_clock(node.condition)
        return Filter(child, then if image == "old" else exp.or_(node.condition, then))
    return map_children(node, lambda child: read_image(child, image, changed))


def select_columns(node: Node, names: Sequence[str]) -> Node:
    """Projects a tree to its columns `names`, in this order."""
    return project_columns(node, [(name, build_column(name)) for name in names])


def rename_columns(node: Node, names: Sequence[str]) -> Node:
    """Renames all columns of a tree to `names`, by position."""
    if isinstance(node, UnionAll):
        return replace(node, names=tuple(names))
    pairs = zip(list_columns(node), names, strict=True)
    return project_columns(node, [(name, build_column(own)) for own, name in pairs])


def project_columns(node: Node, expressions: Sequence[tuple[str, exp.Expr]]) -> Node:
    """Projects a tree to `expressions`, pairs of a column name and an expression.

    Returns `node` itself if that changes nothing. Expressions that are only columns and constants are merged into a
    projection below.
    """
    is_same = all(isinstance(value, exp.Column) and value.name == name for name, value in expressions)
    if is_same and tuple(name for name, _ in expressions) == list_columns(node):
        return node
    if isinstance(node, Projection) and all(
        isinstance(value, exp.Column) or not list_used_columns(value) for _, value in expressions
    ):
        below = dict(node.expressions)
        folded = ((name, below[value.name] if isinstance(value, exp.Column) else value) for name, value in expressions)
        return Projection(node.child, tuple(folded))
    return Projection(node, tuple(expressions))


def to_zset(node: Node, weight: int) -> Node:
    """Adds the column MULTIPLICITY to a tree, with the value `weight` in every row."""
    sign = (MULTIPLICITY, exp.Literal.number(weight))
    if isinstance(node, Projection):
        return Projection(node.child, (*node.expressions, sign))
    return Projection(node, (*((name, build_column(name)) for name in list_columns(node)), sign))


def add_multiplicity(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the column names `names` and MULTIPLICITY: the columns of a Z-set."""
    return (*names, MULTIPLICITY)


def union_terms(terms: Iterable[Node | None], names: Sequence[str]) -> Node | None:
    """Combines the columns `names` of all terms by UNION ALL; None if all terms are None."""
    selected = [select_columns(term, names) for term in terms if term is not None]
    flat = [part for term in selected for part in _list_union_parts(term)]
    if len(flat) < 2:
        return flat[0] if flat else None
    return UnionAll(tuple(flat), tuple(names))


def require_term(node: Node | None) -> Node:
    """Returns `node`, a derived tree; raises ValueError if it is None, which means that no source has changed."""
    if node is None:
        raise ValueError("nothing below has changed: ask `changes` first")
    return node


def _list_union_parts(node: Node) -> tuple[Node, ...]:
    return (
        tuple(part for child in node.inputs for part in _list_union_parts(child))
        if isinstance(node, UnionAll)
        else (node,)
    )
