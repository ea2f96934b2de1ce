"""Rows of sources as of the start and the end of a window, marked by what changed, as local tables of few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import (
    Filter,
    Node,
    Scan,
    SpoolScan,
    list_columns,
    list_scans,
    map_children,
)
from arctic_runtime.ivm.provenance.restrictions import Restriction
from arctic_runtime.ivm.rules.terms import select_columns
from arctic_runtime.model.names import TableName

UNIT = "__arctic_unit"
"""Number of the changed unit that a row belongs to; 0 for a row that did not change."""

SIDE = "__arctic_side"
"""The ends of the window at which a row is there, a `Side`."""


class Side(IntEnum):
    """The ends of a window at which a row is there: both, only its start, or only its end."""

    BOTH = 0
    OLD = 1
    NEW = 2


Row = tuple[Any, ...]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Images:
    """Rows of a source, each as its key and the values of a scan's columns, at both ends of a window."""

    old: Sequence[tuple[Key, Row]]
    new: Sequence[tuple[Key, Row]]


class TooManyRows(Exception):
    """Raised if more rows of a source would have to be read than is allowed."""

    def __init__(self, source: TableName) -> None:
        super().__init__(str(source))
        self.source = source


class EvaluationFailed(Exception):
    """Raised if an engine can't evaluate a tree, such as for a division by zero in a mixture of old and new rows."""


class RowEngine(Protocol):
    """Reads rows of sources, and evaluates trees over local tables."""

    def read_images(self, scan: Scan, restrictions: Sequence[Restriction], identity: Sequence[str]) -> Images:
        """Reads the rows of a source that meet all `restrictions`, which are about the scan's columns.

        The key of a row are the values of the source's key; if it has none, those of its columns `identity`. Raises
        TooManyRows if the rows are more than is allowed.
        """
        ...

    def load_table(self, name: str, scan: Scan, rows: Sequence[Row]) -> None:
        """Makes or replaces the local table `name`, with the columns of the scan, UNIT and SIDE."""
        ...

    def load_key(self, name: str, key: Row) -> None:
        """Makes or replaces the local table `name` of one row, with columns of its name and a number from 0 on."""
        ...

    def evaluate(self, trees: Sequence[Node]) -> list[list[Row]]:
        """Evaluates trees that read local tables; returns the rows of each. Raises EvaluationFailed."""
        ...


@dataclass(frozen=True)
class Unit:
    """The smallest change of a source that can be taken back: all changes of one key, or of the copies of one row.

    If the source has no key, `key` are the values of the columns that the tree reads.
    """

    number: int
    source: TableName
    key: Key
    was_there: bool
    """Whether a row of it was there before the change."""

    is_there: bool
    """Whether a row of it is there after the change."""


@dataclass
class LocalTables:
    """The rows that were read of each scan of a tree, as local tables of an engine.

    `tree` is the tree with a `SpoolScan` in the place of each scan.
    """

    engine: RowEngine
    tree: Node
    scans: dict[str, Scan]
    numbers: dict[tuple[TableName, str], int] = field(default_factory=dict)
    keys: dict[int, tuple[TableName, Key]] = field(default_factory=dict)
    sides: dict[int, set[Side]] = field(default_factory=dict)
    changed: dict[str, frozenset[int]] = field(default_factory=dict)
    """Numbers of the units that have rows in each table; a table that was not read is missing."""

    @classmethod
    def from_tree(cls, engine: RowEngine, tree: Node) -> LocalTables:
        scans: dict[str, Scan] = {}

        def replace_scan(node: Node) -> Node:
            if not isinstance(node, Scan):
                return map_children(node, replace_scan)
            name = f"__arctic_why_{len(scans)}"
            scans[name] = node
            return SpoolScan(name, list_columns(node), node.key)

        replaced = replace_scan(tree)
        return cls(engine, replaced, scans)

    def read(self, name: str, restrictions: Sequence[Restriction]) -> None:
        """Reads the rows of a scan that meet `restrictions`, in the place of those that were read of it before."""
        scan = self.scans[name]
        images = (
            Images((), ())
            if any(one.values == () for one in restrictions)
            else self.engine.read_images(scan, restrictions, self.list_fields(scan.source))
        )
        rows = list(self._mark_rows(scan.source, images))
        self.changed[name] = frozenset(row[-2] for row in rows if row[-2])
        self.engine.load_table(name, scan, rows)

    def _mark_rows(self, source: TableName, images: Images) -> Iterator[Row]:
        old, new = (Counter(_identify_rows(key, row) for key, row in part) for part in (images.old, images.new))
        known = {_identify_rows(key, row): (key, row) for key, row in (*images.old, *images.new)}
        for identity, (key, row) in known.items():
            both = min(old[identity], new[identity])
            yield from [(*row, 0, int(Side.BOTH))] * both
            for side, copies in ((Side.OLD, old[identity] - both), (Side.NEW, new[identity] - both)):
                if copies:
                    number = self._get_number(source, key)
                    self.sides.setdefault(number, set()).add(side)
                    yield from [(*row, number, int(side))] * copies

    def _get_number(self, source: TableName, key: Key) -> int:
        number = self.numbers.setdefault((source, repr(key)), len(self.numbers) + 1)
        self.keys[number] = (source, key)
        return number

    def list_fields(self, source: TableName) -> tuple[str, ...]:
        """Lists the columns of a source that any scan reads."""
        return _list_fields(self.scans.values(), source)

    def list_units(self) -> tuple[Unit, ...]:
        """Lists the changed units that have rows in a table, by number."""
        return tuple(
            Unit(number, *self.keys[number], Side.OLD in self.sides[number], Side.NEW in self.sides[number])
            for number in sorted(frozenset().union(*self.changed.values()))
        )

    def read_old(self, node: Node) -> Node:
        return _read_sides(node, exp.NEQ(this=build_column(SIDE), expression=_number_rows(Side.NEW)))

    def read_new(self, node: Node) -> Node:
        return _read_sides(node, exp.NEQ(this=build_column(SIDE), expression=_number_rows(Side.OLD)))

    def read_either(self, node: Node) -> Node:
        return _read_sides(node, None)

    def read_new_without(self, node: Node, taken_back: Collection[int]) -> Node:
        """Returns the tree over the new rows, but the old rows of the units `taken_back`."""
        if not taken_back:
            return self.read_new(node)
        is_back = exp.In(this=build_column(UNIT), expressions=[_number_rows(number) for number in sorted(taken_back)])
        side = exp.case().when(is_back, _number_rows(Side.NEW)).else_(_number_rows(Side.OLD))
        return _read_sides(node, exp.NEQ(this=build_column(SIDE), expression=side))


def list_fields(tree: Node, source: TableName) -> tuple[str, ...]:
    """Lists the columns of a source that any scan of a tree reads; they are the key of units without another key."""
    return _list_fields(list_scans(tree), source)


def _list_fields(scans: Iterable[Scan], source: TableName) -> tuple[str, ...]:
    return tuple(dict.fromkeys(field for scan in scans if scan.source == source for _, field in scan.fields))


def _identify_rows(key: Key, row: Row) -> str:
    return repr((key, row))


def _number_rows(value: int) -> exp.Expr:
    return exp.Literal.number(int(value))


def _read_sides(node: Node, condition: exp.Expr | None) -> Node:
    if not isinstance(node, SpoolScan):
        return map_children(node, lambda child: _read_sides(child, condition))
    marked: Node = SpoolScan(node.name, (*node.names, UNIT, SIDE))
    return select_columns(marked if condition is None else Filter(marked, condition), node.names)
