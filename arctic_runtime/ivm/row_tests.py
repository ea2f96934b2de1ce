"""Finds tests that need to look at changed rows only, if they passed at an earlier version of their table.

A test is a query without rows if it passes. If it passed at a version V of its table, the rows that are failing now are
among those that a few rows decide:

- A query of filters and projections computes each of its rows from one row of the table. A row that has not changed
  since V fails neither now. The same holds for groups, if only their keys decide whether they are returned.
- Groups by columns that contain the primary key have rows of one key each. A group of a key that has not changed is as
  it was.
- Rows without a partner in another table fail if they are new or changed, or if the partner was deleted since the
  version of the other table with which the test passed.

So the test of the whole table has a row if and only if the test of the selected rows has one, and it has the same
rows. Any other query is refused, like one with a function that depends on more than its arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import list_used_columns, unwrap_parens
from arctic_runtime.ivm.algebra.refusal import NotMaintained, refuse_on_error
from arctic_runtime.ivm.algebra.tree import Aggregate, Filter, Join, Node, Projection, Scan
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.model.columns import is_same_name
from arctic_runtime.model.names import TableName

Looks = Literal["newest", "stored"]
"""Rows that a test looks at: the newest change row of each changed key, or the table's rows with these keys."""


@dataclass(frozen=True)
class RowTest:
    """A test for which the changed rows of `table` are enough.

    `parent` is another table in which each row must have a partner, or None: then `column` refers to the only column
    of the parent's primary key.
    """

    table: TableName
    looks: Looks
    parent: TableName | None = None
    column: str = ""

    @property
    def tables(self) -> tuple[TableName, ...]:
        return (self.table,) if self.parent is None else (self.table, self.parent)


def find_row_test(sql: str, relations: Mapping[TableName, Relation]) -> RowTest:
    """Returns how the test with the query `sql` looks at changed rows; raises NotMaintained if it needs all rows.

    `relations` are the arctic tables that the query reads.
    """
    if not relations:
        raise _refuse_test("the test reads no arctic table")
    with refuse_on_error():
        tables, near = {str(name): relation for name, relation in relations.items()}, next(iter(relations))
        tree = analyse_query(sql, tables, {}, near.catalog, near.schema).tree
        return _find_referential_test(tree, relations) or _find_single_test(tree, relations)


def _refuse_test(because: str) -> NotMaintained:
    return NotMaintained("UNSUPPORTED", because)


def _find_single_test(tree: Node, relations: Mapping[TableName, Relation]) -> RowTest:
    """Returns the test of a query over one table; raises NotMaintained if it has other operators than are known."""
    above: list[Filter | Projection] = []
    node: Node = tree
    while isinstance(node, Filter | Projection):
        above.append(node)
        node = node.child
    if isinstance(node, Scan):
        return RowTest(_check_key(node, relations), "newest")
    if not isinstance(node, Aggregate) or not node.keys:
        raise _refuse_test(f"the test has a {type(node).__name__}, for which single rows are not enough")
    scan, grouped = _trace_columns(node.child, node.keys)
    table = _check_key(scan, relations)
    key = relations[table].key or ()
    if all(any(is_same_name(part, column) for column in grouped.values()) for part in key):
        return RowTest(table, "stored")
    _check_decided_by_keys(reversed(above), node.keys)
    return RowTest(table, "newest")


def _check_decided_by_keys(above: Iterable[Filter | Projection], keys: Collection[str]) -> None:
    """Raises NotMaintained unless nothing but the keys of groups decides which of them the operators `above` return."""
    known = set(keys)
    for node in above:
        if isinstance(node, Projection):
            known = {name for name, value in node.expressions if known.issuperset(list_used_columns(value))}
        elif not known.issuperset(list_used_columns(node.condition)):
            raise _refuse_test("the test counts or sums rows of groups that are not rows of one key")


def _trace_columns(tree: Node, names: Iterable[str]) -> tuple[Scan, dict[str, str]]:
    """Returns the scan below filters and projections, and the table's columns that columns of the tree stand for.

    Columns that are computed are left out. Raises NotMaintained if there are other operators.
    """
    traced = {name: name for name in names}
    node = tree
    while isinstance(node, Filter | Projection):
        if isinstance(node, Projection):
            made = dict(node.expressions)
            values = {name: unwrap_parens(made[at]) for name, at in traced.items() if at in made}
            traced = {name: value.name for name, value in values.items() if isinstance(value, exp.Column)}
        node = node.child
    if not isinstance(node, Scan):
        raise _refuse_test(f"the test has a {type(node).__name__} below its groups or joins")
    fields = dict(node.fields)
    return node, {name: fields[at] for name, at in traced.items() if at in fields}


def _check_key(scan: Scan, relations: Mapping[TableName, Relation]) -> TableName:
    relation = relations.get(scan.source)
    if relation is None or not relation.key:
        raise _refuse_test(f"{scan.source} has no primary key")
    return scan.source


def _find_referential_test(tree: Node, relations: Mapping[TableName, Relation]) -> RowTest | None:
    """Returns the test of a query for rows without a partner in another table; None for any other query."""
    node = tree
    while isinstance(node, Projection):
        node = node.child
    if not isinstance(node, Filter) or not isinstance(node.child, Join):
        return None
    join, missing = node.child, _get_null_column(node.condition)
    on = unwrap_parens(join.on) if join.on is not None else None
    if join.kind != "left" or missing is None or not isinstance(on, exp.EQ):
        return None
    sides = [unwrap_parens(side) for side in (on.this, on.expression)]
    names = [side.name for side in sides if isinstance(side, exp.Column)]
    if len(names) != 2 or missing not in names:
        return None
    own = names[1 - names.index(missing)]
    child, columns = _trace_columns(join.left, [own])
    parent, referred = _trace_columns(join.right, [missing])
    if _has_filter(join.right) or child.source == parent.source or not columns or not referred:
        return None
    key = relations[_check_key(parent, relations)].key or ()
    if len(key) != 1 or not is_same_name(key[0], referred[missing]):
        raise _refuse_test(f"{referred[missing]} is not the primary key of {parent.source}")
    return RowTest(_check_key(child, relations), "newest", parent.source, columns[own])


def _get_null_column(condition: exp.Expr) -> str | None:
    """Returns the column of a condition `column IS NULL`; None for any other condition."""
    plain = unwrap_parens(condition)
    is_null = isinstance(plain, exp.Is) and isinstance(plain.expression, exp.Null)
    column = unwrap_parens(plain.this) if is_null else None
    return column.name if isinstance(column, exp.Column) else None


def _has_filter(tree: Node) -> bool:
    while isinstance(tree, Projection):
        tree = tree.child
    return isinstance(tree, Filter)
