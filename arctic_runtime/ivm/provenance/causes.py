"""Finds the changes of sources that made a change of one result row, by computing the row without each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from arctic_runtime.ivm.algebra.conditions import build_conjunction, build_equality
from arctic_runtime.ivm.algebra.tree import Node, SemiJoin, SpoolScan
from arctic_runtime.ivm.provenance.contributing_rows import ContributingRows
from arctic_runtime.ivm.provenance.restrictions import restrict_columns
from arctic_runtime.ivm.provenance.source_rows import (
    EvaluationFailed,
    LocalTables,
    Row,
    RowEngine,
    TooManyRows,
    Unit,
)
from arctic_runtime.model.names import TableName

Rows = tuple[Row, ...]

KEY = "__arctic_why_key"
"""Local table with the key of the row."""


@dataclass(frozen=True)
class Limits:
    """Limits of a search for causes."""

    units: int
    """Number of changed units above which each of them is a cause, without computing the row without it."""

    batch: int
    """Number of trees that are evaluated at once."""


@dataclass(frozen=True)
class Causes:
    """The changes of sources that a change of a result row comes from."""

    units: tuple[Unit, ...]
    """Changes that, taken back together, give the row as it was before; all that may matter if not `is_proven`."""

    without_effect: tuple[Unit, ...] = ()
    """Other changed units that the row is computed from, without which it would be the same."""

    before: Rows = ()
    """The rows with the key as of the window's start; none if the row did not exist. Empty if not `is_proven`."""

    after: Rows = ()
    """The same as of the window's end."""

    unread: tuple[TableName, ...] = ()
    """Sources of which too many rows would have to be read; any of their changes may matter."""

    is_proven: bool = True
    """Whether the row was computed again without `units`."""

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


def find_causes(engine: RowEngine, tree: Node, names: Sequence[str], key: Row, limits: Limits) -> Causes:
    """Finds the causes of the change of the rows of `tree` whose columns `names` have the values `key`."""
    tables = LocalTables.from_tree(engine, tree)
    reading = ContributingRows(tables)
    try:
        reading.read(tables.tree, (restrict_columns(names, [key]),))
    except TooManyRows as error:
        return Causes(tables.list_units(), unread=_list_unread(tables, error), is_proven=False)
    except EvaluationFailed:
        return Causes(tables.list_units(), unread=_list_unread(tables), is_proven=False)
    engine.load_key(KEY, key)
    return _Worlds(tables, tuple(names), limits).select_causes(reading.is_closed)


def _select_key(tree: Node, names: Sequence[str]) -> Node:
    """Restricts a tree to the rows whose columns `names` have the values in the local table KEY."""
    keys = SpoolScan(KEY, tuple(f"{KEY}{place}" for place in range(len(names))))
    pairs = zip(names, keys.names, strict=True)
    on = build_conjunction(build_equality(name, own, null_safe=True) for name, own in pairs)
    return SemiJoin("semi", tree, keys, on) if names else tree


def find_contributors(engine: RowEngine, tree: Node, names: Sequence[str], key: Row) -> tuple[Unit, ...]:
    """Finds the changed units that the rows of `tree` whose columns `names` have the values `key` are computed from.

    Raises TooManyRows.
    """
    tables = LocalTables.from_tree(engine, tree)
    ContributingRows(tables).read(tables.tree, (restrict_columns(names, [key]),))
    return tables.list_units()


def _list_unread(tables: LocalTables, error: TooManyRows | None = None) -> tuple[TableName, ...]:
    rest = [scan.source for name, scan in tables.scans.items() if name not in tables.changed]
    return tuple(dict.fromkeys([*([error.source] if error else []), *rest]))


@dataclass(frozen=True)
class _Worlds:
    """Computes the rows of a tree in worlds in which some units are as before, and all others as after the window."""

    tables: LocalTables
    names: tuple[str, ...]
    limits: Limits

    def select_causes(self, is_closed: bool) -> Causes:
        """Selects the units that matter; `is_closed` says whether the tables suffice for worlds of some units only.

        A unit matters if the row differs without it alone, or with it alone. Together, these units must explain the
        whole change; otherwise all units are causes.
        """
        units = self.tables.list_units()
        numbers = frozenset(unit.number for unit in units)
        try:
            before, after = self._compute_rows([numbers, frozenset()])
        except EvaluationFailed:
            return Causes(units, is_proven=False)
        whole = Causes(units, (), before, after)
        if before == after:
            return Causes((), units, before, after)
        if len(units) <= 1 or len(units) > self.limits.units or not is_closed:
            return whole
        try:
            return self._narrow_causes(whole)
        except EvaluationFailed:
            return whole

    def _narrow_causes(self, whole: Causes) -> Causes:
        """Leaves out the units without which the row is the same."""
        units, before, after = whole.units, whole.before, whole.after
        numbers = frozenset(unit.number for unit in units)
        without = self._compute_rows([frozenset((unit.number,)) for unit in units])
        same = [unit for unit, rows in zip(units, without, strict=True) if rows == after]
        alone = self._compute_rows([numbers - {unit.number} for unit in same])
        idle = {unit.number for unit, rows in zip(same, alone, strict=True) if rows == before}
        named = tuple(unit for unit in units if unit.number not in idle)
        (taken_back,) = self._compute_rows([frozenset(unit.number for unit in named)])
        rest = tuple(unit for unit in units if unit not in named)
        return Causes(named, rest, before, after) if taken_back == before else whole

    def _compute_rows(self, taken_back: Sequence[Collection[int]]) -> list[Rows]:
        """Computes the rows in worlds without the changes of the units `taken_back`, one world for each element."""
        answers: list[list[Row]] = []
        for start in range(0, len(taken_back), self.limits.batch):
            part = taken_back[start : start + self.limits.batch]
            worlds = (self.tables.read_new_without(self.tables.tree, numbers) for numbers in part)
            trees = [_select_key(world, self.names) for world in worlds]
            answers += self.tables.engine.evaluate(trees)
        return [tuple(sorted(rows, key=repr)) for rows in answers]
