"""Rule of SemiJoin: joins left changes to the right side; recomputes left rows whose partners have changed.

If the right side is a single row, as in `amount > (select avg(amount) …)`, the condition is evaluated for all left rows
with the old and with the new row. Only left rows for which the two results differ are changes.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import substitute_columns
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Filter, Join, Node, SemiJoin, list_columns, name_before
from arctic_runtime.ivm.algebra.unique import has_single_row, is_one_partner
from arctic_runtime.ivm.rules.inputs import Inputs, Names, Rule, at_new, at_old, has_changes
from arctic_runtime.ivm.rules.partners import (
    close_condition,
    derive_delta_by_sides,
    derive_pairs_by_right,
    derive_replacements_by_right,
    derive_touched_by,
    select_partners_of_changed,
    with_partners,
)
from arctic_runtime.ivm.rules.terms import project_columns, require_term, select_columns, union_terms

_FOUND = "__arctic_found"
_ACCEPTED = "__arctic_accepted"


def derive_delta(node: SemiJoin, inputs: Inputs) -> Node:
    return derive_delta_by_sides(node, inputs, lambda: _derive_by_right(node, inputs))


def _derive_by_right(node: SemiJoin, inputs: Inputs) -> list[Node]:
    """Derives the Z-sets of the rows that changes on the right side add to or remove from a semi or anti join.

    If a left row has at most one partner, an added partner adds the row to a semi join and removes it from an anti
    join; a removed partner does the opposite.
    """
    if has_single_row(node):
        return [_derive_membership_changes(node, inputs)]
    if not is_one_partner(list_columns(node.left), node.right, node.on):
        return derive_replacements_by_right(node, inputs)
    weight = build_column(MULTIPLICITY) if node.kind == "semi" else exp.Neg(this=build_column(MULTIPLICITY))
    own = [(name, build_column(name)) for name in list_columns(node)]
    return [project_columns(derive_pairs_by_right(node, inputs), [*own, (MULTIPLICITY, weight)])]


def derive_touched(node: SemiJoin, names: Names, inputs: Inputs) -> Node:
    """Derives the columns `names` of changed left rows and of left rows whose partners changed, or a superset.

    Changed left rows are included whether or not they have a partner, unless a runtime filter excludes them.
    """
    node = close_condition(node, inputs)
    return require_term(
        union_terms((_derive_by_left(node, names, inputs), _derive_touched_by_right(node, names, inputs)), names)
    )


def _derive_touched_by_right(node: SemiJoin, names: Names, inputs: Inputs) -> Node | None:
    if not has_changes(node.right, inputs):
        return None
    if has_single_row(node):
        return select_columns(_derive_membership_changes(node, inputs), names)
    return derive_touched_by(node.right, node.left, node.on, names, inputs)


def _derive_by_left(node: SemiJoin, names: Names, inputs: Inputs) -> Node | None:
    if node.kind == "anti" or not has_changes(node.left, inputs):
        return inputs.derive_touched(node.left, names)
    return with_partners(node.left, node.right, node.on, names, inputs)


def derive_either(node: SemiJoin, names: Names, inputs: Inputs) -> Node:
    return inputs.derive_either(close_condition(node, inputs).left, names)


def is_membership_change(node: Node) -> bool:
    """Whether `node` is the filter of `_derive_membership_changes`, whose result usually has few rows.

    The filter keeps the left rows that a change of the single right row adds or removes.
    """
    return isinstance(node, Filter) and node.condition == _IS_OTHERWISE


def _derive_membership_changes(node: SemiJoin, inputs: Inputs) -> Node:
    """Derives the left rows that a change of the single row on the right adds or removes, as a Z-set.

    The current left side is read once.
    """
    left = select_partners_of_changed(at_new(node.left), node.right, node.on, inputs)
    rows = Join("left", left, _select_image_row(at_new(node.right), str), None)
    rows = Join("left", rows, _select_image_row(at_old(node.right, inputs), name_before), None)
    own = [(name, build_column(name)) for name in list_columns(node)]
    judged = project_columns(
        rows, [*own, *((named(_ACCEPTED), _build_match_condition(node, named)) for named in (str, name_before))]
    )
    comes = build_column(_ACCEPTED if node.kind == "semi" else name_before(_ACCEPTED))
    weight = exp.case().when(comes, exp.Literal.number(1)).else_(exp.Literal.number(-1))
    return project_columns(Filter(judged, _IS_OTHERWISE), [*own, (MULTIPLICITY, weight)])


_Named = Callable[[str], str]
_IS_OTHERWISE = exp.NEQ(this=build_column(_ACCEPTED), expression=build_column(name_before(_ACCEPTED)))


def _select_image_row(right: Node, named: _Named) -> Node:
    """Selects the single row on the right with a column `_FOUND`, which is true; `named` renames all columns."""
    return project_columns(
        right, [*((named(name), build_column(name)) for name in list_columns(right)), (named(_FOUND), exp.true())]
    )


def _build_match_condition(node: SemiJoin, named: _Named) -> exp.Expr:
    """Builds the condition that the old or the new single row on the right is a partner; its value is never null.

    `named` maps the names of the right side's columns to those of the old row, or to those of the new row.
    """
    on = (
        None
        if node.on is None
        else substitute_columns(node.on, {name: build_column(named(name)) for name in list_columns(node.right)})
    )
    is_partner = build_column(named(_FOUND)) if on is None else exp.and_(build_column(named(_FOUND)), on)
    return exp.Coalesce(this=is_partner, expressions=[exp.false()])


RULE = Rule(derive_delta, derive_touched, derive_either)
