"""The engine of provenance over DuckDB: images of sources are tables of whole numbers, as `trees.load` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import Filter, Node, Scan, list_columns
from arctic_runtime.ivm.provenance.restrictions import Restriction
from arctic_runtime.ivm.provenance.source_rows import SIDE, UNIT, Images, Row, TooManyRows
from tests.unit.ivm import trees


@dataclass
class DuckEngine:
    """Counts the rows that it reads; refuses to read more than `most` of a scan."""

    con: duckdb.DuckDBPyConnection
    sources: dict[Any, trees.Source]
    most: int = 1_000
    rows_read: int = field(default=0)

    def read_images(self, scan: Scan, restrictions: Sequence[Restriction], identity: Sequence[str]) -> Images:
        key = self.sources[scan.source].key or tuple(identity)
        old, new = (self._read(scan, image, restrictions, key) for image in ("old", "new"))
        return Images(old, new)

    def _read(
        self, scan: Scan, image: Any, restrictions: Sequence[Restriction], key: Sequence[str]
    ) -> list[tuple[Row, Row]]:
        names = {field: name for name, field in scan.fields}
        rest = tuple((f"{UNIT}.{part}", part) for part in key if part not in names)
        node: Node = Scan(scan.source, (*scan.fields, *rest), image=image)
        for one in restrictions:
            node = Filter(node, _build_condition(one))
        columns = list_columns(node)
        places = [columns.index(names.get(part, f"{UNIT}.{part}")) for part in key]
        width = len(scan.fields)
        rows = [
            (tuple(row[place] for place in places), tuple(row[:width])) for row in trees.rows(self.con, node).elements()
        ]
        self.rows_read += len(rows)
        if len(rows) > self.most:
            raise TooManyRows(scan.source)
        return rows

    def load_table(self, name: str, scan: Scan, rows: Sequence[Row]) -> None:
        trees.given(self.con, name, (*list_columns(scan), UNIT, SIDE), rows)

    def load_key(self, name: str, key: Row) -> None:
        trees.given(self.con, name, tuple(f"{name}{place}" for place in range(len(key))), [key])

    def evaluate(self, queries: Sequence[Node]) -> list[list[Row]]:
        return [list(trees.rows(self.con, node).elements()) for node in queries]


def _build_condition(one: Restriction) -> exp.Expr:
    if one.values is None:
        return one.expressions[0]
    tuples = [
        exp.and_(
            *(
                exp.NullSafeEQ(this=exp.paren(expression), expression=_build_value(value))
                for expression, value in zip(one.expressions, row, strict=True)
            )
        )
        for row in one.values
    ]
    return exp.or_(*tuples)


def _build_value(value: Any) -> exp.Expr:
    return exp.null() if value is None else exp.Literal.number(value)


def build_key_condition(names: Sequence[str], key: Row) -> exp.Expr:
    """The condition that columns have the values of a key; nulls are equal."""
    return _build_condition(Restriction(tuple(build_column(name) for name in names), (key,)))
