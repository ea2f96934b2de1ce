"""Builds the trees of rows that an edited query has and the old one did not, from the sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import Node, Projection, Scan, UnionAll, list_columns
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.edits.block import (
    Attached,
    Block,
    Conditions,
    Leaf,
    build_tree,
    get_condition_form,
    name_columns,
)
from arctic_runtime.ivm.edits.implication import is_implied
from arctic_runtime.ivm.edits.matching import BlockMatch, name_lost_column
from arctic_runtime.ivm.edits.refused import NotEdited


def list_inserted(match: BlockMatch, names: Sequence[str]) -> list[Node]:
    """Builds the trees of the new query's rows that the old result lacks, with the columns `names`.

    Raises NotEdited if the old query removes rows in a way that can't be turned round.
    """
    refuted = _refute_old(match)
    if match.union is not None and match.union.added:
        if refuted is not None:
            raise NotEdited("parts were added to a union and conditions removed at the same time")
        return [build_tree(_select_inputs(match.new, match.union.added), names)]
    return [] if refuted is None else [build_tree(refuted, names)]


def _select_inputs(block: Block, places: Sequence[int]) -> Block:
    (leaf,) = block.leaves
    assert isinstance(leaf.node, UnionAll)
    node = UnionAll(tuple(leaf.node.inputs[place] for place in places), leaf.node.names)
    return replace(block, leaves=(Leaf(node, tuple(leaf.inputs[place] for place in places)),))


def _refute_old(match: BlockMatch) -> Block | None:
    """Builds the block of the new query's rows that the old query filters out; None if it filters no others out."""
    removed = list_removed_conditions(match)
    asked = [part for part in match.removed_attached if part.kind != "left"]
    for part in match.removed_attached:
        names = (*(name for leaf in match.old.leaves for name in leaf.columns), *_list_attached_columns(match.old))
        right = _rename_right(part)
        if part.kind == "left" and not is_one_partner(_list_names(names, part), right, build_conjunction(part.on)):
            raise NotEdited("a left join was removed that may have given several rows for one")
    if not removed and not asked:
        return None
    if len(asked) > 1 or (asked and removed):
        raise NotEdited("several conditions and subqueries were removed at the same time")
    read = name_columns((*removed, *(value for part in asked for value in part.on)))
    block = replace(match.new, leaves=_add_lost_columns(match, read, asked))
    if asked:
        (part,) = asked
        other = replace(part, kind="anti" if part.kind == "semi" else "semi", right=_rename_right(part))
        return replace(block, attached=(*block.attached, other))
    is_true = exp.Coalesce(this=build_conjunction(part.copy() for part in removed), expressions=[exp.false()])
    return replace(block, conditions=(*block.conditions, exp.not_(is_true)))


def list_removed_conditions(match: BlockMatch) -> Conditions:
    """Lists the conditions of the old query that rows of the new one need not fulfil."""
    known = {get_condition_form(part) for part in match.new.conditions}
    removed = (part for part in match.old.conditions if get_condition_form(part) not in known)
    return tuple(part for part in removed if not is_implied(part, match.new.conditions))


def _list_attached_columns(block: Block) -> tuple[str, ...]:
    return tuple(name for part in block.attached for name in part.columns)


def _list_names(names: Sequence[str], part: Attached) -> frozenset[str]:
    """Columns that the condition of a removed left join reads beside those of its right side."""
    return name_columns(part.on) - {name_lost_column(name) for name in list_columns(part.right)}


def _rename_right(part: Attached) -> Node:
    """Renames the columns of an old right side, since those of the new tree may have the same names."""
    pairs = ((name_lost_column(name), build_column(name)) for name in list_columns(part.right))
    return Projection(part.right, tuple(pairs))


def _add_lost_columns(match: BlockMatch, read: frozenset[str], asked: Sequence[Attached]) -> tuple[Leaf, ...]:
    """Returns the leaves of the new block with the columns in `read` that only the old query reads of its sources."""
    leaves = list(match.new.leaves)
    own = {name_lost_column(name) for part in asked for name in list_columns(part.right)}
    missing = {name for name in read if name.startswith(name_lost_column(""))} - own
    for old, place in zip(match.old.leaves, match.leaves, strict=True):
        node = leaves[place].node
        if isinstance(old.node, Scan) and isinstance(node, Scan):
            found = tuple((name_lost_column(name), column) for name, column in old.node.fields)
            found = tuple(pair for pair in found if pair[0] in missing)
            leaves[place] = replace(leaves[place], node=replace(node, fields=(*node.fields, *found)))
            missing -= {name for name, _ in found}
    if missing:
        raise NotEdited("a removed condition is over columns that the new query does not have")
    return tuple(leaves)
