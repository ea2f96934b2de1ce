"""Translates a tree of operators over Spark's expressions to a query of DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
    list_columns,
    map_children,
)
from arctic_runtime.ivm.render import build_query
from arctic_runtime.query.expressions import Translator, Typed
from arctic_runtime.query.functions import check_groupable, translate_order
from arctic_runtime.query.refusal import NotAnswered


@dataclass
class TreeTranslator:
    """Translates the expressions of a tree from the scans up, and collects the types of its columns in `types`."""

    types: dict[str, str]
    is_utc: bool = True

    def translate_tree(self, node: Node) -> Node:
        """Returns the tree with expressions of DuckDB; raises NotAnswered for an operator that may differ."""
        node = map_children(node, self.translate_tree) if list_children(node) else node
        match node:
            case Scan() | OneRow():
                return node
            case Projection(expressions=named):
                return replace(node, expressions=self._translate_named(named))
            case Filter(condition=condition):
                return replace(node, condition=self._translator.translate_condition(condition))
            case Join(on=on) | SemiJoin(on=on):
                return replace(
                    node, on=None if on is None else self._translator.translate_condition(on), broadcast=None
                )
            case Aggregate(keys=keys, aggregates=named):
                self._check_groups(keys)
                return replace(node, aggregates=self._translate_named(named))
            case WindowColumns(expressions=named):
                return replace(node, expressions=self._translate_named(named))
            case Distinct():
                self._check_groups(list_columns(node))
                return node
            case UnionAll(inputs=inputs, names=names):
                self._unite_types(inputs, names, "UNION")
                return node
            case SetOperation(kind=kind, left=left, right=right, names=names):
                self._unite_types((left, right), names, kind.upper())
                self._check_groups(names)
                return node
            case Explode():
                raise NotAnswered("explode and other functions that make rows")
            case SpoolScan():
                raise NotAnswered("an intermediate result")
            case _:
                assert_never(node)

    @property
    def _translator(self) -> Translator:
        return Translator(self.types, self.is_utc)

    def _translate_named(self, named: Sequence[tuple[str, exp.Expr]]) -> tuple[tuple[str, exp.Expr], ...]:
        values: list[tuple[str, Typed]] = [(name, self._translator.translate(value)) for name, value in named]
        self.types.update({name: value.type for name, value in values})
        return tuple((name, value.sql) for name, value in values)

    def _check_groups(self, names: Sequence[str]) -> None:
        for name in names:
            check_groupable(self.types[name])

    def _unite_types(self, inputs: Sequence[Node], names: Sequence[str], operation: str) -> None:
        for place, name in enumerate(names):
            of_types = {self.types[list_columns(part)[place]] for part in inputs} - {"void"}
            if len(of_types) > 1:
                raise NotAnswered(f"{operation} of {' and '.join(sorted(of_types))} in one column; cast one of them")
            self.types[name] = of_types.pop() if of_types else "void"


def name_scans(node: Node, name: Callable[[Scan], Scan]) -> Node:
    """Returns the tree with each scan replaced by the result of `name`."""
    if isinstance(node, Scan):
        return name(node)
    return map_children(node, lambda child: name_scans(child, name)) if list_children(node) else node


def build_duckdb_query(
    tree: Node,
    translator: TreeTranslator,
    shown: Sequence[str],
    order: exp.Order | None,
    least: int | None,
    most: int | None,
) -> exp.Select:
    """Builds the query of a translated tree: the columns `shown` of it, in the order, named by their places.

    `least` rows are left out, and `most` are returned; None for no limit.
    """
    rows = build_query(tree).subquery("t", copy=False)
    query = exp.Select(expressions=[_alias(name, place) for place, name in enumerate(shown)]).from_(rows, copy=False)
    if order is not None:
        query.set("order", translate_order(Translator(translator.types, translator.is_utc), order))
    for clause, kind, count in (("limit", exp.Limit, most), ("offset", exp.Offset, least)):
        if count is not None:
            query.set(clause, kind(expression=exp.Literal.number(count)))
    return query


def _alias(name: str, place: int) -> exp.Expr:
    return exp.alias_(exp.column(exp.to_identifier(name, quoted=True)), f"c{place}", quoted=True)


def list_scan_conditions(node: Node) -> dict[str, list[exp.Expr]]:
    """Maps the source name of each scan to the conditions directly above it; scans have names of their own."""
    conditions: dict[str, list[exp.Expr]] = {}
    below, parts = node, list[exp.Expr]()
    while isinstance(below, Filter):
        parts.append(below.condition)
        below = below.child
    if isinstance(below, Scan):
        return {below.source.name: parts}
    for child in list_children(below):
        conditions |= list_scan_conditions(child)
    return conditions
