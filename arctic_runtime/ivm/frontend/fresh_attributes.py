"""Copies a query's tree with fresh names for all columns."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.expressions import build_column, transform_expression
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
)
from arctic_runtime.ivm.frontend.scope import Derived, Names


def with_fresh_attributes(derived: Derived, names: Names) -> Derived:
    """Copies the tree of a query with fresh column names, so that a larger tree can contain the query twice.

    The copy takes a fraction of the time of a second analysis of the query's text.
    """
    other = _Renaming(names)
    return Derived(
        other.rename_node(derived.node),
        tuple((name, other.rename_column(made)) for name, made in derived.fields),
        tuple(other.rename_expression(part) for part in derived.pending),
    )


class _Renaming:
    """Renames columns to fresh names; the types and nullability of the old names are stored for the new ones."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._made: dict[str, str] = {}

    def rename_column(self, old: str) -> str:
        made = self._made.get(old)
        if made is None:
            made = self._made[old] = self._names.make_fresh(old.rpartition("#")[0], self._names.types.get(old))
            if old in self._names.never_null:
                self._names.never_null.add(made)
        return made

    def rename_expression(self, old: exp.Expr) -> exp.Expr:
        return transform_expression(
            old, lambda part: build_column(self.rename_column(part.name)) if type(part) is exp.Column else part
        )

    def rename_node(self, old: Node) -> Node:
        match old:
            case Scan(fields=fields, key=key):
                made = tuple((self.rename_column(name), stored) for name, stored in fields)
                return replace(old, fields=made, key=None if key is None else self._rename_all(key))
            case SpoolScan() | OneRow():
                return old
            case Projection(child=child, expressions=expressions):
                return Projection(self.rename_node(child), self._rename_named(expressions))
            case Filter(child=child, condition=condition):
                return Filter(self.rename_node(child), self.rename_expression(condition))
            case Join(left=left, right=right, on=on) | SemiJoin(left=left, right=right, on=on):
                both = None if on is None else self.rename_expression(on)
                return replace(old, left=self.rename_node(left), right=self.rename_node(right), on=both)
            case Aggregate(child=child, keys=keys, aggregates=aggregates):
                return Aggregate(self.rename_node(child), self._rename_all(keys), self._rename_named(aggregates))
            case WindowColumns(child=child, partition=partition, expressions=expressions):
                return WindowColumns(
                    self.rename_node(child), self._rename_all(partition), self._rename_named(expressions)
                )
            case Explode(child=child, generator=generator, names=names):
                return replace(
                    old,
                    child=self.rename_node(child),
                    generator=self.rename_expression(generator),
                    names=self._rename_all(names),
                )
            case Distinct(child=child):
                return Distinct(self.rename_node(child))
            case UnionAll(inputs=inputs, names=names):
                return UnionAll(tuple(self.rename_node(part) for part in inputs), self._rename_all(names))
            case SetOperation(left=left, right=right, names=names):
                return replace(
                    old, left=self.rename_node(left), right=self.rename_node(right), names=self._rename_all(names)
                )
            case _:
                assert_never(old)

    def _rename_all(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.rename_column(name) for name in names)

    def _rename_named(self, expressions: tuple[tuple[str, exp.Expr], ...]) -> tuple[tuple[str, exp.Expr], ...]:
        return tuple((self.rename_column(name), self.rename_expression(value)) for name, value in expressions)
