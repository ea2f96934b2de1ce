"""Rule of Join: joins the changes of each side to the other side; derives or recomputes rows without a partner."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Explode, Join, Node, SemiJoin, UnionAll, list_columns
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.rules.inputs import Inputs, Names, Rule, has_changes
from arctic_runtime.ivm.rules.partners import (
    close_condition,
    derive_delta_by_sides,
    derive_pairs_by_right,
    derive_replacements_by_right,
    derive_touched_by,
    map_equal_columns,
    select_either_rows,
    select_pairs_of_either,
)
from arctic_runtime.ivm.rules.star_joins import derive_star_delta
from arctic_runtime.ivm.rules.terms import project_columns, require_term, select_columns, union_terms


def derive_delta(node: Join, inputs: Inputs) -> Node:
    if node.kind == "full":
        return require_term(inputs.derive_delta(split_full_join(node)))
    star = derive_star_delta(node, inputs) if node.kind == "inner" else None
    if star is not None:
        return star
    return derive_delta_by_sides(node, inputs, lambda: _derive_by_right(node, inputs))


def derive_touched(node: Join, names: Names, inputs: Inputs) -> Node:
    node = close_condition(node, inputs)
    if node.kind == "full":
        return require_term(inputs.derive_touched(split_full_join(node), names))
    terms: list[Node] = []
    if has_changes(node.left, inputs):
        terms.append(derive_touched_by(node.left, node.right, node.on, names, inputs, node.kind == "left"))
    if has_changes(node.right, inputs):
        terms.append(derive_touched_by(node.right, node.left, node.on, names, inputs))
    return _add_unmatched(require_term(union_terms(terms, names)), node, names)


def derive_either(node: Join, names: Names, inputs: Inputs) -> Node:
    node = close_condition(node, inputs)
    if not has_changes(node, inputs) and not set(names) <= set(list_columns(node.left)):
        return select_columns(node, names)
    if node.kind == "full":
        return inputs.derive_either(split_full_join(node), names)
    if _shows_unmatched(node, names) and not set(names) <= set(map_equal_columns(node.left, node.right, node.on)):
        return _add_unmatched(select_either_rows(node, names, inputs), node, names)
    return _add_unmatched(select_pairs_of_either(node.left, node.right, node.on, names, inputs), node, names)


def split_full_join(node: Join) -> UnionAll:
    """Splits a full join into a left join and the right rows without a partner, combined by UNION ALL."""
    alone = SemiJoin("anti", node.right, node.left, node.on)
    pads = project_columns(alone, [_select_or_null(name, node.right) for name in list_columns(node)])
    return UnionAll((replace(node, kind="left"), pads), list_columns(node))


def _derive_by_right(node: Join, inputs: Inputs) -> list[Node]:
    if node.kind == "inner":
        return [derive_pairs_by_right(node, inputs)]
    if is_one_partner(list_columns(node.left), node.right, node.on):
        return [_with_pads(derive_pairs_by_right(node, inputs), node)]
    return derive_replacements_by_right(node, inputs)


def _with_pads(pairs: Node, node: Join) -> Node:
    """Adds to each changed pair of a left join the left row with nulls, with the opposite multiplicity.

    `pairs` is a Z-set of the pairs of a left row with its partner, of which it has at most one. An added pair removes
    the left row with nulls, and a removed pair adds it. If one partner replaces another, the two rows with nulls cancel
    out. The left side is so read only once.
    """
    paired = f"{_PAIRED}{MULTIPLICITY}"
    weight = (
        exp.case()
        .when(build_column(paired), build_column(MULTIPLICITY))
        .else_(exp.Neg(this=build_column(MULTIPLICITY)))
    )
    return _add_unmatched_where(pairs, node, list_columns(node), paired, (MULTIPLICITY, weight))


def _shows_unmatched(node: Join, names: Names) -> bool:
    """Whether `names` has columns of the right side of a left join, which are null for rows without a partner."""
    return node.kind == "left" and not set(names) <= set(list_columns(node.left))


def _add_unmatched(rows: Node, node: Join, names: Names) -> Node:
    """Adds to each of `rows` a copy with nulls for the partner's values, if `names` has columns of the partner.

    The copies are made by an `explode`, because a union would compute `rows` twice at every join.
    """
    if not _shows_unmatched(node, names):
        return rows
    own = list_columns(node.left)
    return _add_unmatched_where(rows, node, names, f"{_PAIRED}{next(name for name in names if name not in own)}")


def _add_unmatched_where(rows: Node, node: Join, names: Names, paired: str, *more: tuple[str, exp.Expr]) -> Node:
    """Returns each of `rows` twice: with the partner's values, and with nulls in place of these.

    The result has the columns `names`, and the columns `more`, whose expressions may read the column `paired`, which is
    true for the first copy and false for the second.
    """
    both = Explode(rows, exp.Explode(this=exp.Array(expressions=[exp.true(), exp.false()])), (paired,), False)
    own = list_columns(node.left)
    return project_columns(
        both,
        [*((name, build_column(name) if name in own else _build_if_paired(paired, name)) for name in names), *more],
    )


_PAIRED = "__arctic_paired_"


def _build_if_paired(paired: str, name: str) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=build_column(paired), true=build_column(name))])


def _select_or_null(name: str, node: Node) -> tuple[str, exp.Expr]:
    return (name, build_column(name) if name in list_columns(node) else exp.null())


RULE = Rule(derive_delta, derive_touched, derive_either)
