"""Branches of unions that read a source."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import Filter, Join, Node, Projection, Scan, SetOperation, UnionAll, list_scans
from arctic_runtime.ivm.provenance.restrictions import keep_branches_of
from arctic_runtime.model.names import TableName

A, B, C = (TableName("lake", "ods", name) for name in "abc")


def scan(source: TableName) -> Scan:
    return Scan(source, ((source.name, "id"),))


def union(*parts: Node) -> UnionAll:
    return UnionAll(parts, ("id",))


def keep(node: Node, *sources: TableName) -> set[TableName]:
    return {scan.source for scan in list_scans(keep_branches_of(node, sources))}


def test_other_branches_go_below_operators_that_take_each_row_alone() -> None:
    node = Projection(
        Filter(union(scan(A), union(scan(B), scan(C))), build_column("id")), (("id", build_column("id")),)
    )
    assert keep(node, A) == {A}
    assert keep(node, B) == {B}
    assert keep(node, A, C) == {A, C}


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_a_joined_table_stays_with_the_branches_that_read_the_source(kind: str) -> None:
    node = Join(kind, union(scan(A), scan(B)), scan(C), None)  # type: ignore[arg-type]
    assert keep(node, A) == {A, C}
    assert keep(node, C) == {A, B, C}


def test_operators_that_compare_branches_keep_all_of_them() -> None:
    assert keep(SetOperation("except", True, scan(A), scan(B), ("id",)), B) == {A, B}
    assert keep(Join("full", union(scan(A), scan(B)), scan(C), None), A) == {A, B, C}
