"""Finds the changes of sources that made a change of one result row, by computing the row without each of them.

Before that, the rows of all sources are read that the row is computed from. Its key is followed from the root of the
tree to the scans. Where a join has no value of the key on one side, the rows of the other side are read first, and the
values of their join columns restrict the rest. So the cost follows the rows that contribute, not the tables. Operators
without an inverse, such as a window without a partition, have their whole input read, as far as that is allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import (
    Equality,
    build_conjunction,
    build_equality,
    list_equalities,
    split_conjuncts,
)
from arctic_runtime.ivm.algebra.expressions import list_used_columns
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
    list_columns,
    map_children,
)
from arctic_runtime.ivm.provenance.restrictions import (
    Restriction,
    list_condition_restrictions,
    rename_restrictions,
    restrict_columns,
    select_within,
    substitute_restrictions,
    transfer_restrictions,
)
from arctic_runtime.ivm.provenance.source_rows import (
    EvaluationFailed,
    LocalTables,
    Row,
    RowEngine,
    TooManyRows,
    Unit,
)
from arctic_runtime.ivm.rules.terms import rename_columns, select_columns
from arctic_runtime.model.names import TableName

Restrictions = tuple[Restriction, ...]


class ContributingRows:
    """Reads contributing rows into local tables; `is_closed` says for which worlds they suffice.

    It is True if they suffice for every choice of old and new rows among the changed units, False if only for all old
    and for all new ones: then values that follow from several rows, such as sums, decided which other rows were read.
    """

    def __init__(self, tables: LocalTables) -> None:
        self.tables = tables
        self.is_closed = True

    def read(self, node: Node, restrictions: Restrictions) -> None:  # noqa: C901 - one case per operator
        """Reads what rows of `node` that meet `restrictions` are computed from; raises TooManyRows."""
        match node:
            case SpoolScan(name=name):
                self.tables.read(name, restrictions)
            case OneRow():
                pass
            case Projection(child=child, expressions=expressions):
                self.read(child, substitute_restrictions(restrictions, dict(expressions)))
            case Filter(child=child, condition=condition):
                self.read(child, (*restrictions, *list_condition_restrictions(condition)))
            case Distinct(child=child):
                self.read(child, restrictions)
            case Explode(child=child):
                self.read(child, select_within(restrictions, list_columns(child)))
            case Aggregate(child=child, keys=keys):
                self.read(child, select_within(restrictions, keys))
            case WindowColumns():
                self._read_window(node, restrictions)
            case Join() | SemiJoin():
                self._read_join(node, restrictions)
            case UnionAll(inputs=inputs, names=names):
                for part in inputs:
                    self.read(part, rename_restrictions(restrictions, names, list_columns(part)))
            case SetOperation(left=left, right=right, names=names):
                for part in (left, right):
                    self.read(part, rename_restrictions(restrictions, names, list_columns(part)))
            case Scan():
                raise TypeError("a scan has no local table")
            case _:
                assert_never(node)

    def _read_window(self, node: WindowColumns, restrictions: Restrictions) -> None:
        """Reads whole partitions; first the restricted rows, if these are not whole partitions."""
        whole = select_within(restrictions, node.partition)
        own = select_within(restrictions, list_columns(node.child))
        if node.partition and not _has_values(whole) and _has_values(own):
            self.read(node.child, own)
            values = self._list_values(node.child, node.partition)
            whole = (*whole, restrict_columns(node.partition, values))
        self.read(node.child, whole)

    def _read_join(self, node: Join | SemiJoin, restrictions: Restrictions) -> None:
        equal = list_equalities(node.on, list_columns(node.left), list_columns(node.right))
        left, right = self._split_restrictions(node, equal, restrictions)
        is_full = isinstance(node, Join) and node.kind == "full"
        is_inner = isinstance(node, Join) and node.kind == "inner"
        if is_full and not _has_values(left) and not _has_values(right):
            self.read(node.left, left)
            self.read(node.right, right)
        elif _has_values(right) and not _has_values(left) and (is_inner or is_full):
            self.read(node.right, right)
            self.read(node.left, (*left, *self._link_rows(node.right, left, equal, "left")))
        else:
            self.read(node.left, left)
            self.read(node.right, (*right, *self._link_rows(node.left, right, equal, "right")))

    def _split_restrictions(
        self, node: Join | SemiJoin, equal: Sequence[Equality], restrictions: Restrictions
    ) -> tuple[Restrictions, Restrictions]:
        """Splits the restrictions of a join's result into those of both sides."""
        left, right = (select_within(restrictions, list_columns(side)) for side in (node.left, node.right))
        if isinstance(node, Join) and node.kind == "full":
            return _split_full(restrictions, left, right, equal)
        on = list_condition_restrictions(node.on)
        inside = select_within(on, list_columns(node.right))
        if isinstance(node, Join) and node.kind == "inner":
            own = select_within(on, list_columns(node.left))
            return (
                (*left, *transfer_restrictions(right, equal, "left"), *own),
                (*right, *transfer_restrictions(left, equal, "right"), *inside),
            )
        return left, (*transfer_restrictions(left, equal, "right"), *inside)

    def _link_rows(self, first: Node, other: Restrictions, equal: Sequence[Equality], to: str) -> Restrictions:
        """Restricts the other side of a join to partners of the rows that were read of the side `first`."""
        pairs = [(pair.left, pair.right) if to == "right" else (pair.right, pair.left) for pair in equal]
        known = {name for one in other for name in one.plain_columns}
        if not pairs or known.issuperset(own for _, own in pairs):
            return ()
        rows = self._list_values(first, tuple(name for name, _ in pairs))
        is_null_safe = [pair.null_safe for pair in equal]
        partners = [
            row for row in rows if all(safe or value is not None for safe, value in zip(is_null_safe, row, strict=True))
        ]
        return (restrict_columns([own for _, own in pairs], partners),)

    def _list_values(self, node: Node, names: Sequence[str]) -> list[Row]:
        """Lists the values that columns of a tree have in any world, or if they follow from groups, in the old and new.

        The values of a mixed world are those of old and new rows together, if each follows from single rows.
        """
        if not _list_computed(node).isdisjoint(names):
            self.is_closed = False
        images = (self.tables.read_old(node), self.tables.read_new(node), self.tables.read_either(_widen_columns(node)))
        answers = self.tables.engine.evaluate([Distinct(select_columns(image, tuple(names))) for image in images])
        return [row for rows in answers for row in rows]


def _has_values(restrictions: Restrictions) -> bool:
    return any(one.values is not None for one in restrictions)


def _split_full(
    restrictions: Restrictions, left: Restrictions, right: Restrictions, equal: Sequence[Equality]
) -> tuple[Restrictions, Restrictions]:
    """Splits the restrictions of a full join, whose rows may have nulls in the place of either side.

    A column `coalesce(a, b)` of equated columns has its values on both sides.
    """
    pairs = {frozenset((pair.left, pair.right)): pair for pair in equal}
    merged = [
        (pairs[names], Restriction((part,), tuple((row[place],) for row in one.values)))
        for one in restrictions
        if one.values is not None
        for place, part in enumerate(one.expressions)
        if isinstance(part, exp.Coalesce) and (names := frozenset(list_used_columns(part))) in pairs
    ]
    both = [(pair, one) for pair, one in merged if not any(value is None for (value,) in one.values or ())]
    if both:
        sides = zip(*[_restrict_pair(pair, one) for pair, one in both], strict=True)
        one_side, other_side = sides
        return tuple(one_side), tuple(other_side)
    safe = tuple(one for one in left if one.is_never_null)
    if safe:
        return safe, ()
    return (), tuple(one for one in right if one.is_never_null)


def _restrict_pair(pair: Equality, one: Restriction) -> tuple[Restriction, Restriction]:
    rows = one.values or ()
    return restrict_columns([pair.left], rows), restrict_columns([pair.right], rows)


def _list_computed(node: Node) -> frozenset[str]:
    """Columns of a tree that follow from several rows, such as aggregates, or from expressions over such columns."""
    match node:
        case Aggregate(child=child, keys=keys, aggregates=aggregates):
            below = _list_computed(child)
            return frozenset((*(key for key in keys if key in below), *(name for name, _ in aggregates)))
        case WindowColumns(child=child, expressions=expressions):
            return _list_computed(child).union(name for name, _ in expressions)
        case Projection(child=child, expressions=expressions):
            below = _list_computed(child)
            return frozenset(name for name, value in expressions if not below.isdisjoint(list_used_columns(value)))
        case Filter(child=child) | Distinct(child=child):
            return _list_computed(child)
        case Explode(child=child, generator=generator, names=names):
            below = _list_computed(child)
            return below.union(names) if not below.isdisjoint(list_used_columns(generator)) else below
        case Join(left=left, right=right):
            return _list_computed(left) | _list_computed(right)
        case SemiJoin(left=left):
            return _list_computed(left)
        case UnionAll(inputs=inputs, names=names):
            return frozenset(name for part in inputs for name in _rename_computed(part, names))
        case SetOperation(left=left, right=right, names=names):
            return frozenset((*_rename_computed(left, names), *_rename_computed(right, names)))
    return frozenset()


def _rename_computed(part: Node, names: Sequence[str]) -> list[str]:
    below = _list_computed(part)
    return [name for name, own in zip(names, list_columns(part), strict=True) if own in below]


def _widen_columns(node: Node) -> Node:
    """Returns a tree which, over old and new rows together, has the rows of every mixed world, and others.

    Conditions on columns that follow from several rows are dropped, and so is whatever only removes rows.
    """
    match node:
        case Filter(child=child, condition=condition):
            kept = _keep_known(condition, _list_computed(child))
            return _widen_columns(child) if kept is None else Filter(_widen_columns(child), kept)
        case SemiJoin(kind="anti", left=left):
            return _widen_columns(left)
        case SemiJoin(left=left, right=right, on=on):
            kept = _keep_known(on, _list_computed(left) | _list_computed(right))
            return replace(node, left=_widen_columns(left), right=_widen_columns(right), on=kept)
        case Join(left=left, right=right, on=on):
            kept = _keep_known(on, _list_computed(left) | _list_computed(right))
            kind = "inner" if kept is None and node.kind == "full" else node.kind
            return replace(node, kind=kind, left=_widen_columns(left), right=_widen_columns(right), on=kept)
        case SetOperation(left=left, names=names):
            return rename_columns(_widen_columns(left), names)
    return map_children(node, _widen_columns)


def _keep_known(condition: exp.Expr | None, computed: frozenset[str]) -> exp.Expr | None:
    return build_conjunction(
        part for part in split_conjuncts(condition) if computed.isdisjoint(list_used_columns(part))
    )


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
