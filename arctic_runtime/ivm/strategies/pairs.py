"""Plans maintenance by pairs: each operator processes the new and the old version of a changed row in one row.

A pair has the new values, the old values (in columns that `name_before` names), and two boolean flags: HAS_AFTER says
whether the new row exists, HAS_BEFORE whether the old one exists. If a row does not exist, its columns hold arbitrary
values. An expression that could raise an error is therefore computed only if the row's flag is true.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.clock import CLOCK
from arctic_runtime.ivm.algebra.conditions import (
    build_conjunction,
    list_equalities,
    map_plain_columns,
    split_conjuncts,
    substitute_columns,
)
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    HAS_AFTER,
    HAS_BEFORE,
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    WindowColumns,
    list_columns,
    list_scans,
    name_before,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.rules.terms import has_changed, project_columns, select_columns
from arctic_runtime.model.names import TableName

Kept = Literal["inner", "left"]
Asked = Literal["semi", "anti"]

_FOUND = "__arctic_found"
_FLAGS = (HAS_AFTER, HAS_BEFORE)


@dataclass(frozen=True)
class Paired:
    """An operator's rows as pairs: `node` computes the pairs, and `names` are the operator's columns.

    `reconciled` are the columns with the same value before and after the change. `keys` maps columns that come from the
    key of the changed source to their names in the source's scan. Columns in either have valid values even if the old
    or the new row does not exist.
    """

    node: Node
    names: tuple[str, ...]
    reconciled: frozenset[str]
    keys: Mapping[str, str]

    def is_same_for_both(self, condition: exp.Expr | None) -> bool:
        """Whether a condition has the same value for both rows of each pair, because it reads only reconciled columns.

        Columns of a join partner, which are not in `names`, don't count.
        """
        return self.reconciled.issuperset(set(list_used_columns(condition)).intersection(self.names))


def list_pair_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """Lists the columns that pairs have if their rows have the columns `names`: new values, old values and flags."""
    return (*names, *map(name_before, names), *_FLAGS)


def scan_pairs(node: Scan) -> Paired:
    own = {name: name for name in node.key or ()}
    return Paired(replace(node, image="pair"), list_columns(node), frozenset(own), own)


def project_pairs(below: Paired, expressions: tuple[tuple[str, exp.Expr], ...]) -> Paired:
    names = frozenset(below.names)
    made = [(image.named(name), image.compute_value(value, names)) for image in _IMAGES for name, value in expressions]
    own = map_plain_columns(expressions)
    return Paired(
        project_columns(below.node, (*made, *((flag, build_column(flag)) for flag in _FLAGS))),
        tuple(name for name, _ in expressions),
        frozenset(name for name, source in own.items() if source in below.reconciled),
        {name: below.keys[source] for name, source in own.items() if source in below.keys},
    )


def filter_pairs(below: Paired, condition: exp.Expr) -> Paired:
    if below.is_same_for_both(condition):
        return replace(below, node=Filter(below.node, condition))
    return _update_flags(below, {image.flag: image.build_condition(condition, below.names) for image in _IMAGES})


def join_shared_partner(below: Paired, kind: Kept, partner: Node, on: exp.Expr | None) -> Paired:
    """Joins pairs to `partner` if the old and the new row of each pair have the same partner.

    For this, `is_same_for_both(on)` must be true.
    """
    own = list_columns(partner)
    joined = Join(kind, below.node, partner, on)
    values = {name: build_column(name) for name in list_columns(joined)} | {
        name_before(name): build_column(name) for name in own
    }
    node = project_columns(joined, tuple(values.items()))
    return replace(below, node=node, names=(*below.names, *own), reconciled=below.reconciled.union(own))


def join_own_partners(below: Paired, kind: Kept, partner: Node, on: exp.Expr | None) -> Paired:
    """Joins pairs to `partner` if the old and the new row may have different partners, at most one each."""
    joined = replace(below, node=_look_up_partner(below, partner, on), names=(*below.names, *list_columns(partner)))
    return _update_flags(joined, {image.flag: image.match_row() for image in _IMAGES} if kind == "inner" else {})


def semi_join_whole_pairs(below: Paired, kind: Asked, right: Node, on: exp.Expr | None) -> Paired:
    """Filters whole pairs by a semi or anti join with `right`; `is_same_for_both(on)` must be true."""
    return replace(below, node=SemiJoin(kind, below.node, right, on))


def semi_join_old_and_new(below: Paired, kind: Asked, probe: Node, on: exp.Expr | None) -> Paired:
    """Filters the old and the new row of each pair by a semi or anti join with `probe`.

    Each of the two must match at most one row of `probe`.
    """
    asked = replace(below, node=_look_up_partner(below, probe, on))
    return _update_flags(asked, {image.flag: image.match_row(kind == "semi") for image in _IMAGES})


@dataclass(frozen=True)
class _Image:
    """The old or the new row of a pair.

    `flag` is the column that says whether the row exists. `named` maps the name of an operator's column to the name of
    the column with this row's value.
    """

    flag: str
    named: Callable[[str], str]

    def bind_columns(self, value: exp.Expr, names: Collection[str]) -> exp.Expr:
        """Replaces the columns `names` in an expression by the columns of this row of the pair."""
        used = [name for name in list_used_columns(value) if name in names]
        return substitute_columns(value, {name: build_column(self.named(name)) for name in used})

    def compute_value(self, value: exp.Expr, names: Collection[str]) -> exp.Expr:
        """Builds the value of an expression over the columns `names` of this row; null if the row does not exist.

        A column or constant is returned as it is, even if the row does not exist, because it can't raise an error.
        """
        own = self.bind_columns(value, names)
        is_safe = isinstance(own.unnest(), exp.Column | exp.Literal | exp.Boolean | exp.Null)
        return own if is_safe else exp.case().when(build_column(self.flag), own)

    def build_condition(self, condition: exp.Expr, names: Collection[str]) -> exp.Expr:
        """Builds the condition that this row exists and fulfils `condition`; its value is never null.

        The CASE returns the flag in its ELSE: with `false` there, Spark's optimizer would turn the CASE into an AND,
        split it, and evaluate `condition` for rows that do not exist.
        """
        is_true = exp.Coalesce(this=self.bind_columns(condition, names), expressions=[exp.false()])
        return exp.case().when(build_column(self.flag), is_true).else_(build_column(self.flag))

    def match_row(self, wanted: bool = True) -> exp.Expr:
        """Builds the condition that this row exists and has a partner or, if `wanted` is False, has none."""
        is_alone = exp.Is(this=build_column(self.named(_FOUND)), expression=exp.null())
        return exp.and_(build_column(self.flag), exp.not_(is_alone) if wanted else is_alone)


_IMAGES = (_Image(HAS_AFTER, str), _Image(HAS_BEFORE, name_before))


def _update_flags(below: Paired, flags: Mapping[str, exp.Expr]) -> Paired:
    """Replaces flags of pairs by the expressions that `flags` has for them, and drops helper columns of joins.

    If `flags` is not empty, pairs are removed if neither of their rows exists any more.
    """
    values = {name: flags.get(name, build_column(name)) for name in list_pair_columns(below.names)}
    node = project_columns(below.node, tuple(values.items()))
    is_left = exp.or_(*(build_column(flag) for flag in _FLAGS))
    return replace(below, node=Filter(node, is_left) if flags else node)


def _look_up_partner(below: Paired, partner: Node, on: exp.Expr | None) -> Node:
    """Joins pairs to `partner` twice: once for the new and once for the old row, each with at most one partner.

    The column `_FOUND` of the new row, and that of the old row, is null if the row has no partner.
    """
    values = [*((name, build_column(name)) for name in list_columns(partner)), (_FOUND, exp.true())]
    joined = below.node
    for image in _IMAGES:
        side = project_columns(partner, [(image.named(name), value) for name, value in values])
        joined = Join("left", joined, side, _match_row(below, on, image, list_columns(partner)))
    return joined


def _match_row(below: Paired, on: exp.Expr | None, image: _Image, partner: tuple[str, ...]) -> exp.Expr | None:
    """Builds the join condition `on` for the old or the new row of a pair; `partner` are the partner's columns.

    An equality stays an equality, so that Spark can use a hash join.
    """
    own, names = set(below.names), (*below.names, *partner)

    def match_part(part: exp.Expr) -> exp.Expr:
        if own.isdisjoint(list_used_columns(part)):
            return image.bind_columns(part, names)
        sides = (part.left, part.right) if isinstance(part, exp.EQ | exp.NullSafeEQ) else ()
        if not sides or any(
            own.intersection(list_used_columns(side)) and not own.issuperset(list_used_columns(side)) for side in sides
        ):
            return image.build_condition(part, names)
        one, other = (
            (image.compute_value if own.intersection(list_used_columns(side)) else image.bind_columns)(side, names)
            for side in sides
        )
        return type(part)(this=one, expression=other)

    return build_conjunction(map(match_part, split_conjuncts(on)))


_WHOLE = (Aggregate, Distinct, SetOperation, WindowColumns)
"""Operators that must read all input rows before they return a result row."""


@dataclass(frozen=True)
class Pairs:
    """Maintenance by pairs: for each changed row of the only changed source, the new and the old result row.

    The tree `rows` computes the pairs. Its columns are those of the query with the new values, a column named by
    `name_before` for each old value, and the flags HAS_AFTER and HAS_BEFORE. The key columns are set even if only the
    old row exists.
    """

    rows: Node


def plan_pairs(
    tree: Node,
    key: tuple[str, ...],
    changed: frozenset[TableName],
    paired: frozenset[TableName],
    small: frozenset[TableName],
) -> Pairs | None:
    """Plans the maintenance of a result by pairs; None if pairs are not possible.

    They are possible if a single source has changed, is in `paired`, the sources that have an image `pair`, and each of
    its rows gives at most one result row. The key of the result must be the source's key, so that no result row comes
    from two source rows, and the change of a row keeps the key of its result row. `small` are the sources that cost
    little to read twice.
    """
    changed_scans = [scan for scan in list_scans(tree) if scan.source in changed]
    if CLOCK in changed or len(changed_scans) != 1 or changed_scans[0].source not in paired or not changed_scans[0].key:
        return None
    top = _Path(frozenset({changed_scans[0].source}), small).follow_node(tree)
    if top is None or not top.keys.keys() >= set(key) or {top.keys[name] for name in key} != set(changed_scans[0].key):
        return None
    return Pairs(select_columns(top.node, list_pair_columns(list_columns(tree))))


@dataclass(frozen=True)
class _Path:
    """Builds pairs for each operator on the path from the only changed source up to the root of the tree.

    `changed` has this source; `small` are the sources that cost little to read twice.
    """

    changed: frozenset[TableName]
    small: frozenset[TableName]

    def follow_node(self, node: Node) -> Paired | None:
        """Builds the pairs of an operator's result.

        None if a source row may give several result rows, if several source rows may give the same one, or if the pairs
        would cost too much.
        """
        match node:
            case Scan():
                return scan_pairs(node)
            case Projection(child=child, expressions=expressions):
                below = self.follow_node(child)
                return below and project_pairs(below, expressions)
            case Filter(child=child, condition=condition):
                below = self.follow_node(child)
                return below and filter_pairs(below, condition)
            case Join(kind="inner" | "left" as kind, left=left, right=right, on=on):
                if not has_changed(right, self.changed):
                    return self._follow_join(kind, self.follow_node(left), right, on)
                return self._follow_join(kind, self.follow_node(right), left, on) if kind == "inner" else None
            case SemiJoin() if not has_changed(node.right, self.changed):
                return self._follow_semi_join(node, self.follow_node(node.left))
            case _:
                return None

    def _follow_join(self, kind: Kept, below: Paired | None, partner: Node, on: exp.Expr | None) -> Paired | None:
        if below is None or not is_one_partner(below.names, partner, on):
            return None
        if below.is_same_for_both(on):
            return join_shared_partner(below, kind, partner, on) if self._is_cheap(partner) else None
        return join_own_partners(below, kind, partner, on) if self._is_small(partner) else None

    def _follow_semi_join(self, node: SemiJoin, below: Paired | None) -> Paired | None:
        if below is None or not self._is_cheap(node.right):
            return None
        if below.is_same_for_both(node.on):
            return semi_join_whole_pairs(below, node.kind, node.right, node.on)
        probe = _build_probe(below, node.right, node.on) if self._is_small(node.right) else None
        return semi_join_old_and_new(below, node.kind, probe, node.on) if probe else None

    def _is_small(self, node: Node) -> bool:
        return all(scan.source in self.small for scan in list_scans(node))

    def _is_cheap(self, node: Node) -> bool:
        """Whether the computation of all rows of `node` costs little more than that of partners of changed rows."""
        return self._is_small(node) or not any(isinstance(part, _WHOLE) for part in walk_tree(node))


def _build_probe(below: Paired, right: Node, on: exp.Expr | None) -> Node | None:
    """Builds a right side for a semi-join of which each left row matches at most one row; None if that is impossible.

    It has the distinct values of the columns of `right` that the condition `on` reads.
    """
    own = tuple(name for name in list_used_columns(on) if name in list_columns(right))
    if is_one_partner(below.names, right, on):
        return select_columns(right, own)
    is_equal = len(list_equalities(on, below.names, list_columns(right))) == len(split_conjuncts(on))
    return Distinct(select_columns(right, own)) if is_equal else None
