"""Derives changes of joins: changed rows of one side with their partners on the other, by conditions that are safe.

A rule evaluates a join condition again, also for rows that exist neither before nor after the changes. So the condition
must give the same result again, and must not raise an error for such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import (
    Equality,
    build_conjunction,
    build_equality,
    list_equalities,
    list_hash_links,
    split_conjuncts,
)
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Join, Node, Projection, SemiJoin, list_columns
from arctic_runtime.ivm.algebra.unique import has_single_row
from arctic_runtime.ivm.rules.existing_rows import can_fail, find_free_columns, has_only_existing
from arctic_runtime.ivm.rules.inputs import Inputs, Names, at_new, at_old, has_changes, pick_some
from arctic_runtime.ivm.rules.restrict import has_blocking_operator, restrict_to_keys
from arctic_runtime.ivm.rules.runtime_filters import find_runtime_filter
from arctic_runtime.ivm.rules.terms import (
    add_multiplicity,
    project_columns,
    rename_columns,
    require_term,
    select_columns,
    to_zset,
    union_terms,
)

DeriveByRight = Callable[[], list[Node]]
"""Derives the Z-sets of joined rows that changes of the right side of a join add and remove."""


def _select_affected_left(left: Node, right: Node, on: exp.Expr | None, inputs: Inputs) -> Node:
    """Selects the rows of `left` for which a partner in `right` may have been added or removed.

    All other rows of `left` have the same partners before and after the changes. Returns all of `left` if the usable
    conditions read no column of `right`.
    """
    link = _select_link_conditions(on, left, list_columns(left), right, ())
    reads = _select_own(right, list_used_columns(link))
    return SemiJoin("semi", left, with_partners(right, left, on, reads, inputs), link) if reads else left


def _derive_partner_images(left: Node, right: Node, on: exp.Expr | None, inputs: Inputs) -> tuple[Node, Node]:
    """Builds the old and the new rows of `right`, limited to rows with join keys of changed rows of `right`."""
    pairs = list_equalities(on, list_columns(left), list_columns(right))
    names = _deduplicate_names(pair.right for pair in pairs)
    if not names:
        return at_old(right, inputs), at_new(right)
    changed = with_partners(right, left, on, names, inputs)
    before, after = (
        restrict_to_keys(image, names, changed, _has_null_safe(pairs))
        for image in (at_old(right, inputs), at_new(right))
    )
    return before, after


def select_partners_of_changed(node: Node, other: Node, on: exp.Expr | None, inputs: Inputs) -> Node:
    """Restricts `node`, one side of a join, to possible partners of changed rows of `other`, the other side."""
    return restrict_to_partners(node, other, on, lambda names: require_term(inputs.derive_touched(other, names)))


def derive_delta_by_sides(node: Join | SemiJoin, inputs: Inputs, derive_by_right: DeriveByRight) -> Node:
    """Derives the Z-set of a join: left changes joined with the old right side, and the terms of `derive_by_right`.

    `derive_by_right` derives the changes that follow from changes on the right, joined with the new left side.
    """
    terms: list[Node] = []
    left = inputs.derive_delta(node.left)
    if left is not None:
        right = select_partners_of_changed(at_old(node.right, inputs), node.left, node.on, inputs)
        terms.append(replace(node, left=left, right=right))
    if has_changes(node.right, inputs):
        terms.extend(derive_by_right())
    return require_term(union_terms(terms, add_multiplicity(list_columns(node))))


def derive_pairs_by_right(node: Join | SemiJoin, inputs: Inputs) -> Node:
    """Derives the Z-set of joined rows that changes on the right add and remove, from the current rows of the left."""
    left = select_partners_of_changed(at_new(node.left), node.right, node.on, inputs)
    return Join("inner", left, require_term(inputs.derive_delta(node.right)), node.on)


def derive_replacements_by_right(node: Join | SemiJoin, inputs: Inputs) -> list[Node]:
    """Derives two Z-sets for left rows whose partners may have changed: removed old and added new rows of the join.

    Both read the current left side, restricted to these rows.
    """
    affected = _select_affected_left(at_new(node.left), node.right, node.on, inputs)
    before, after = _derive_partner_images(node.left, node.right, node.on, inputs)
    return [
        to_zset(replace(node, left=affected, right=before), -1),
        to_zset(replace(node, left=affected, right=after), 1),
    ]


def derive_touched_by(
    side: Node, other: Node, on: exp.Expr | None, names: Names, inputs: Inputs, keeps_alone: bool = False
) -> Node:
    """Derives the columns `names` of rows of a join whose row on `side` has changed, or a superset.

    `other` is the other side of the join, `on` its condition. If `keeps_alone`, rows of `side` without a partner are
    included, as in a left join. If `side` has all columns `names`, or columns that equal them, `other` is not read, or
    only as far as a runtime filter needs it.
    """
    stands_for = map_equal_columns(side, other, on)
    if set(names) <= set(stands_for):
        own = _deduplicate_names(stands_for[name] for name in names)
        below = (
            require_term(inputs.derive_touched(side, own))
            if keeps_alone
            else with_partners(side, other, on, own, inputs)
        )
        return project_columns(below, [(name, build_column(stands_for[name])) for name in names])
    link = _select_link_conditions(on, side, _select_own(side, names), other, _select_own(other, names))
    changed = _select_own(side, (*names, *list_used_columns(link)))
    rest = inputs.derive_either(other, pick_some(_select_own(other, (*names, *list_used_columns(link))), other))
    if not changed and not keeps_alone:
        return select_columns(rest, names)
    rows = require_term(inputs.derive_touched(side, pick_some(changed, side)))
    rest = restrict_to_partners(rest, rows, link, lambda key_names: select_columns(rows, key_names))
    if keeps_alone:
        return select_columns(Join("left", rows, rest, link), names)
    if set(names) <= set(list_columns(other)):
        return select_columns(SemiJoin("semi", rest, rows, link), names)
    return select_columns(Join("inner", rows, rest, link), names)


def with_partners(side: Node, other: Node, on: exp.Expr | None, names: Names, inputs: Inputs) -> Node:
    """Derives the columns `names` of changed rows of `side`, one side of a join, or a superset.

    If `other`, the other side, supplies a runtime filter, rows that have no partner by this filter are left out.
    """
    runtime = find_runtime_filter(side, other, on, inputs.filter_sources)
    if runtime is None or runtime.column not in find_free_columns(side, names):
        return require_term(inputs.derive_touched(side, names))
    rows = require_term(inputs.derive_touched(side, _deduplicate_names((*names, runtime.column))))
    seen = rename_columns(inputs.derive_either(runtime.rows, (runtime.other,)), (_SEEN,))
    return select_columns(SemiJoin("semi", rows, seen, build_equality(runtime.column, _SEEN, runtime.null_safe)), names)


_SEEN = "__arctic_seen"


def has_runtime_filter(node: Node) -> bool:
    """Whether `node` is a semi-join by which `with_partners` has applied a runtime filter."""
    return isinstance(node, SemiJoin) and list_columns(node.right) == (_SEEN,)


def restrict_to_partners(node: Node, other: Node, on: exp.Expr | None, rows: Callable[[Names], Node]) -> Node:
    """Restricts `node`, one side of a join, to possible partners of certain rows of `other`, the other side.

    `rows` builds a tree of some columns of these rows of `other`. `node` is returned unchanged if the join has no
    equality, or if `node` has no groups, window functions or set operations: Spark would compute these for all rows
    before the join, whereas without them it drops rows without a partner early by itself.
    """
    pairs = list_equalities(on, list_columns(node), list_columns(other))
    if not pairs or not has_blocking_operator(node):
        return node
    own = {pair.right: pair.left for pair in pairs}
    return restrict_to_keys(node, tuple(own.values()), rows(tuple(own)), _has_null_safe(pairs))


def map_equal_columns(side: Node, other: Node, on: exp.Expr | None) -> dict[str, str]:
    """Maps each column of `side` to itself, and each column of `other` that equals one of `side` to that column.

    `side` and `other` are the sides of a join on `on`; only columns with the same value in all joined rows count.
    """
    equal = {
        pair.right: pair.left for pair in list_equalities(on, list_columns(side), list_columns(other)) if pair.same
    }
    return {**equal, **{name: name for name in list_columns(side)}}


def has_link(left: Node, right: Node, on: exp.Expr | None) -> bool:
    """Whether the condition `on` of a join has an equality of an expression over each side."""
    return bool(list_hash_links(on, list_columns(left), list_columns(right)))


def select_pairs_of_either(left: Node, right: Node, on: exp.Expr | None, names: Names, inputs: Inputs) -> Node:
    """Selects the columns `names` of old and new rows of an inner join, or a superset.

    Only one side is read if it has these columns, or columns that always equal them.
    """
    for side, other in ((left, right), (right, left)):
        if set(names) <= set(list_columns(side)):
            return inputs.derive_either(side, names)
        stands_for = map_equal_columns(side, other, on)
        if set(names) <= set(stands_for):
            below = inputs.derive_either(side, _deduplicate_names(stands_for[name] for name in names))
            return project_columns(below, [(name, build_column(stands_for[name])) for name in names])
    return select_either_rows(Join("inner", left, right, on), names, inputs)


def select_either_rows(node: Join, names: Names, inputs: Inputs) -> Node:
    """Selects the columns `names` of all old and new rows of a join, or a superset.

    The old and new rows of both sides are joined by the conditions that need no further scan or join. The result of a
    left join includes left rows that have no partner.
    """
    link = _select_link_conditions(
        node.on, node.left, _select_own(node.left, names), node.right, _select_own(node.right, names)
    )
    one, two = (
        inputs.derive_either(side, pick_some(_select_own(side, (*names, *list_used_columns(link))), side))
        for side in (node.left, node.right)
    )
    return select_columns(Join(node.kind, one, two, link), names)


def _select_link_conditions(
    on: exp.Expr | None, left: Node, of_left: Names, right: Node, of_right: Names
) -> exp.Expr | None:
    """Selects the conjuncts of a join condition that need no further scan or join.

    These are the equalities of both sides, and the conditions on columns that come without a further scan or join if
    the columns `of_left` and `of_right` are derived from the sides. Returns the whole condition if it has no equality.
    """
    equal = list_hash_links(on, list_columns(left), list_columns(right))
    if not equal:
        return on
    reads = tuple(name for part in equal for name in list_used_columns(part))
    cheap = find_free_columns(left, (*of_left, *_select_own(left, reads))) | find_free_columns(
        right, (*of_right, *_select_own(right, reads))
    )
    return build_conjunction(part for part in split_conjuncts(on) if cheap.issuperset(list_used_columns(part)))


def _has_null_safe(pairs: Iterable[Equality]) -> bool:
    return any(pair.null_safe for pair in pairs)


def _select_own(node: Node, names: Iterable[str]) -> Names:
    return tuple(name for name in _deduplicate_names(names) if name in list_columns(node))


def _deduplicate_names(names: Iterable[str]) -> Names:
    return tuple(dict.fromkeys(names))


_Joined = TypeVar("_Joined", Join, SemiJoin)

_LINK = "__arctic_link_"


def close_condition(node: _Joined, inputs: Inputs) -> _Joined:
    """Removes conditions of a join that read columns in `known.chosen` or can raise an error.

    The returned join may have more pairs. If an equality can raise an error, its sides are not removed but computed
    below the join, only for rows that exist before or after the changes. Raises NotMaintained if the join had an
    equality of both sides and has none left.
    """
    parts_of_on = split_conjuncts(node.on)
    closed = [part for part in parts_of_on if inputs.known.chosen.isdisjoint(list_used_columns(part))]
    if len(closed) < len(parts_of_on):
        _check_link_remains(node, closed, inputs)
    risky = [part for part in closed if _can_fail(part, node, inputs)]
    if len(closed) == len(parts_of_on) and not risky:
        return node
    sides = [(node.left, dict[str, exp.Expr]()), (node.right, dict[str, exp.Expr]())]
    equal = list_hash_links(build_conjunction(risky), list_columns(node.left), list_columns(node.right))
    safe_parts = [part for part in closed if part not in risky]
    for part in equal:
        safe_parts.append(
            type(part)(this=_compute_below(part.this, sides), expression=_compute_below(part.expression, sides))
        )
    left, right = (_add_computed(side, made) for side, made in sides)
    return replace(node, left=left, right=right, on=build_conjunction(safe_parts))


def _can_fail(part: exp.Expr, node: Join | SemiJoin, inputs: Inputs) -> bool:
    sides = (part.this, part.expression) if isinstance(part, exp.EQ | exp.NullSafeEQ) else (part,)
    if not any(can_fail(side, inputs.known.types) for side in sides):
        return False
    read = list_used_columns(part)
    return not all(
        has_only_existing(side, tuple(name for name in read if name in list_columns(side)), inputs)
        for side in (node.left, node.right)
    )


def _compute_below(value: exp.Expr, sides: list[tuple[Node, dict[str, exp.Expr]]]) -> exp.Expr:
    """Adds `value`, one side of an equality, to the computed columns of the input that it reads.

    `sides` are the inputs of the join, each with its computed columns, to which the new one is added. Returns the new
    column.
    """
    made = next(made for side, made in sides if set(list_used_columns(value)) <= set(list_columns(side)))
    name = f"{_LINK}{sum(len(added_columns) for _, added_columns in sides)}"
    made[name] = value
    return build_column(name)


def _add_computed(side: Node, made: dict[str, exp.Expr]) -> Node:
    own = ((name, build_column(name)) for name in list_columns(side))
    return Projection(side, (*own, *made.items())) if made else side


def _check_link_remains(node: Join | SemiJoin, closed: list[exp.Expr], inputs: Inputs) -> None:
    """Raises NotMaintained if the join had an equality of both sides, but its remaining conditions `closed` have none.

    Any row could then be the partner of a changed row. Also raises it if the right side of a semi or anti join is a
    single row that has changed.
    """
    names = list_columns(node.left), list_columns(node.right)
    was_linked, is_linked = (bool(list_hash_links(on, *names)) for on in (node.on, build_conjunction(closed)))
    is_judged = isinstance(node, SemiJoin) and has_single_row(node) and has_changes(node.right, inputs)
    if is_judged or was_linked > is_linked:
        raise NotMaintained("NOT_REPEATABLE", "a join compares a value that may differ if it is recomputed")
