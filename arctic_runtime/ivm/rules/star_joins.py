"""Derives the changes of a star join: an inner join of a fact table with tables of which each row has one partner.

The general rule of a join adds a term for each table that has changed, and each term joins all tables. Here every table
supplies its rows before and after the changes in one tree, each with a sign: -1 for a row that exists only before them,
+1 for a row that exists only after them, and 0 for a row that has not changed. One join of these trees has the removed
and the added rows of the star join: those that combine rows of one sign with rows that have not changed. Of the fact
table it reads only rows that have changed, or that may have a partner which has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.clock import CLOCK
from arctic_runtime.ivm.algebra.conditions import (
    build_conjunction,
    build_equality,
    list_equalities,
    split_conjuncts,
    substitute_columns,
)
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    MULTIPLICITY,
    Distinct,
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    UnionAll,
    list_columns,
    list_sources,
)
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.rules.inputs import Inputs, has_changes
from arctic_runtime.ivm.rules.terms import project_columns, select_columns

_SIGN, _LINK, _MATCHED = "__arctic_sign_", "__arctic_star_key_", "__arctic_matched_"


@dataclass(frozen=True)
class Membership:
    """Rows of `rows` that have a partner in at least one of the `partners`, pairs of a tree and a join condition."""

    rows: Node
    partners: tuple[tuple[Node, exp.Expr], ...]

    @property
    def semi_joins(self) -> tuple[SemiJoin, ...]:
        """Semi-joins with each of the partners, which together have the rows."""
        return tuple(SemiJoin("semi", self.rows, values, on) for values, on in self.partners)


@dataclass(frozen=True)
class _Table:
    """One input of a star join: projections and filters of a scan, with the joins to its dimensions.

    `number` is the place among the inputs. `links` are the conditions by which each dimension is joined.
    """

    number: int
    node: Node
    dimensions: tuple[_Table, ...] = ()
    links: tuple[exp.Expr, ...] = ()


def derive_star_delta(node: Join, inputs: Inputs) -> Node | None:
    """Derives the Z-set of added and removed rows of a star join; None if `node` is none, or has few changed tables.

    The result may remove and add equal rows.
    """
    leaves, conditions = _flatten_join(node)
    changed = [leaf for leaf in leaves if has_changes(leaf, inputs)]
    if len(changed) < inputs.known.star_changes or CLOCK in inputs.changed.intersection(list_sources(node)):
        return None
    if not all(_find_keyed_scan(leaf) for leaf in changed):
        return None
    star = _find_star(leaves, conditions)
    return None if star is None else _join_signed_rows(star, node, conditions, inputs)


def find_membership(node: Node) -> Membership | None:
    """Returns what a filter by `_select_members` selects; None for any other tree."""
    if not isinstance(node, Filter) or not any(name.startswith(_MATCHED) for name in list_used_columns(node.condition)):
        return None
    partners: list[tuple[Node, exp.Expr]] = []
    rows = node.child
    while isinstance(rows, Join) and any(name.startswith(_MATCHED) for name in list_columns(rows.right)):
        assert rows.on is not None
        partners.append((rows.right, rows.on))
        rows = rows.left
    return Membership(rows, tuple(partners))


def _flatten_join(node: Node) -> tuple[list[Node], list[exp.Expr]]:
    """Returns the inputs of nested inner joins and the conjuncts of their conditions."""
    match node:
        case Join(kind="inner", left=left, right=right, on=on):
            (leaves, conditions), (others, more) = _flatten_join(left), _flatten_join(right)
            return [*leaves, *others], [*conditions, *more, *split_conjuncts(on)]
        case Filter(child=child, condition=condition):
            leaves, conditions = _flatten_join(child)
            if len(leaves) > 1:
                return leaves, [*conditions, *split_conjuncts(condition)]
        case Projection(child=child, expressions=expressions) if _is_selection(expressions):
            leaves, conditions = _flatten_join(child)
            if len(leaves) > 1:
                return leaves, conditions
    return [node], []


def _is_selection(expressions: Iterable[tuple[str, exp.Expr]]) -> bool:
    return all(isinstance(value, exp.Column) and value.name == name for name, value in expressions)


def _find_keyed_scan(leaf: Node) -> Scan | None:
    """Returns the scan below the projections and filters of `leaf`; None if there is another operator, or no key."""
    while isinstance(leaf, Projection | Filter):
        leaf = leaf.child
    return leaf if isinstance(leaf, Scan) and leaf.key and set(leaf.key) <= set(list_columns(leaf)) else None


def _find_star(leaves: Sequence[Node], conditions: Sequence[exp.Expr]) -> _Table | None:
    """Finds the input from which all others are reached by joins to one partner; None if there is none."""
    for root in range(len(leaves)):
        links = _reach_all(root, leaves, conditions)
        if links is not None:
            return _build_table(root, leaves, links)
    return None


_Links = dict[int, tuple[int, exp.Expr]]
"""Maps the number of an input to that of the input to which it is joined, and the condition."""


def _reach_all(root: int, leaves: Sequence[Node], conditions: Sequence[exp.Expr]) -> _Links | None:
    links: _Links = {}
    reached = [root]
    for parent in reached:
        for child in range(len(leaves)):
            if child in reached:
                continue
            link = _build_link(leaves[parent], leaves[child], conditions)
            if is_one_partner(list_columns(leaves[parent]), leaves[child], link):
                assert link is not None
                links[child] = (parent, link)
                reached.append(child)
    return links if len(reached) == len(leaves) else None


def _build_link(parent: Node, child: Node, conditions: Iterable[exp.Expr]) -> exp.Expr | None:
    sides = list_columns(parent), list_columns(child)
    return build_conjunction(part for part in conditions if list_equalities(part, *sides))


def _build_table(number: int, leaves: Sequence[Node], links: _Links) -> _Table:
    own = [(child, link) for child, (parent, link) in links.items() if parent == number]
    dimensions = tuple(_build_table(child, leaves, links) for child, _ in own)
    return _Table(number, leaves[number], dimensions, tuple(link for _, link in own))


def _join_signed_rows(star: _Table, node: Join, conditions: Sequence[exp.Expr], inputs: Inputs) -> Node:
    """Joins the signed rows of all tables, and selects the combinations that only exist before or after the changes."""
    joined = _sign_rows(star, inputs, _list_moved_partners(star, inputs))
    if MULTIPLICITY not in list_columns(joined):
        joined = project_columns(joined, [*_list_same(list_columns(joined)), (MULTIPLICITY, exp.Literal.number(0))])
    waiting, tables = list(conditions), list(star.dimensions)
    for table in tables:
        tables.extend(table.dimensions)
        joined, waiting = _join_table(joined, table, waiting, inputs)
    signs, zero = build_column(MULTIPLICITY), exp.Literal.number(0)
    weight = exp.case().when(exp.GT(this=signs, expression=zero), exp.Literal.number(1)).else_(exp.Literal.number(-1))
    changed = Filter(joined, exp.NEQ(this=signs.copy(), expression=zero.copy()))
    return project_columns(changed, [*_list_same(list_columns(node)), (MULTIPLICITY, weight)])


def _join_table(
    joined: Node, table: _Table, waiting: Sequence[exp.Expr], inputs: Inputs
) -> tuple[Node, list[exp.Expr]]:
    """Joins a table to the rows so far, by the conditions that can be evaluated; also returns the remaining ones.

    Rows with opposite signs don't match, so the sum of the signs, in MULTIPLICITY, is 0 only if no row has changed.
    """
    partner, sign = _sign_rows(table, inputs), f"{_SIGN}{table.number}"
    names = tuple(name for name in list_columns(partner) if name != MULTIPLICITY)
    reached = {*list_columns(joined), *names}
    now = [part for part in waiting if reached.issuperset(list_used_columns(part))]
    rest = [part for part in waiting if part not in now]
    if MULTIPLICITY not in list_columns(partner):
        return Join("inner", joined, partner, build_conjunction(now)), rest
    partner = project_columns(partner, [*_list_same(names), (sign, build_column(MULTIPLICITY))])
    own = build_column(MULTIPLICITY)
    product = exp.Mul(this=exp.paren(own.copy()), expression=build_column(sign))
    now.append(exp.GTE(this=product, expression=exp.Literal.number(0)))
    rows = Join("inner", joined, partner, build_conjunction(now))
    kept = [name for name in list_columns(joined) if name != MULTIPLICITY]
    total = exp.Add(this=own, expression=build_column(sign))
    return project_columns(rows, [*_list_same([*kept, *names]), (MULTIPLICITY, total)]), rest


def _sign_rows(table: _Table, inputs: Inputs, moved: Sequence[tuple[Node, exp.Expr]] | None = None) -> Node:
    """Builds the tree of a table's rows with their sign in the column MULTIPLICITY, which an unchanged table lacks.

    If `moved` is not None, unchanged rows are restricted to those with a partner in one of these trees.
    """
    scan = _find_keyed_scan(table.node)
    if scan is None or not has_changes(table.node, inputs):
        return _select_members(table.node, moved)
    delta, names = inputs.derive_delta(table.node), list_columns(table.node)
    assert delta is not None
    if moved is not None and not moved:
        return delta
    assert scan.key is not None
    is_late = set(scan.key) <= set(names)
    rows = _select_members(table.node if is_late else _drop_changed(table.node, scan), moved)
    stayed = _drop_changed(rows, scan) if is_late else rows
    signed = project_columns(stayed, [*_list_same(names), (MULTIPLICITY, exp.Literal.number(0))])
    return UnionAll((delta, signed), (*names, MULTIPLICITY))


def _drop_changed(rows: Node, scan: Scan) -> Node:
    """Drops the rows of `scan` whose keys have changed, as late as `rows`, a tree above the scan, has the key."""
    assert scan.key is not None
    if not set(scan.key) <= set(list_columns(rows)):
        assert isinstance(rows, Filter | Projection)
        return replace(rows, child=_drop_changed(rows.child, scan))
    moved = replace(scan, fields=tuple(field for field in scan.fields if field[0] in scan.key), image="delta")
    names = {name: f"{_LINK}{name}" for name in scan.key}
    keys = project_columns(moved, [(new, build_column(name)) for name, new in names.items()])
    return SemiJoin(
        "anti", rows, keys, build_conjunction(build_equality(*pair, null_safe=False) for pair in names.items())
    )


def _select_members(rows: Node, partners: Sequence[tuple[Node, exp.Expr]] | None) -> Node:
    """Selects the rows that have a partner in at least one of `partners`, in one read; all rows if that is None."""
    if partners is None:
        return rows
    if len(partners) == 1:
        ((values, on),) = partners
        return SemiJoin("semi", rows, values, on)
    joined, flags = rows, []
    for number, (values, on) in enumerate(partners):
        flag = f"{_MATCHED}{number}"
        marked = project_columns(Distinct(values), [*_list_same(list_columns(values)), (flag, exp.true())])
        joined = Join("left", joined, marked, on)
        flags.append(exp.not_(exp.Is(this=build_column(flag), expression=exp.null())))
    return select_columns(Filter(joined, exp.or_(*flags)), list_columns(rows))


def _list_moved_partners(table: _Table, inputs: Inputs) -> tuple[tuple[Node, exp.Expr], ...]:
    """Lists, for each dimension with changes at or below it, the join keys of its changed rows, and the condition."""
    moved = []
    for dimension, link in zip(table.dimensions, table.links, strict=True):
        own = [pair.right for pair in list_equalities(link, list_columns(table.node), list_columns(dimension.node))]
        names = tuple(dict.fromkeys(own))
        rows = _select_moved_rows(dimension, names, inputs)
        if rows is not None:
            renamed = {name: f"{_LINK}{name}" for name in names}
            values = project_columns(rows, [(new, build_column(name)) for name, new in renamed.items()])
            columns = {name: build_column(new) for name, new in renamed.items()}
            moved.append((values, substitute_columns(link, columns)))
    return tuple(moved)


def _select_moved_rows(table: _Table, names: tuple[str, ...], inputs: Inputs) -> Node | None:
    """Selects the columns `names` of rows that have changed, or may have a changed partner; None if there are none."""
    delta, moved = inputs.derive_delta(table.node), _list_moved_partners(table, inputs)
    parts = [] if delta is None else [select_columns(delta, names)]
    if moved:
        parts.append(select_columns(_select_members(table.node, moved), names))
    return UnionAll(tuple(parts), names) if len(parts) > 1 else next(iter(parts), None)


def _list_same(names: Iterable[str]) -> list[tuple[str, exp.Expr]]:
    return [(name, build_column(name)) for name in names]
