"""Finds the parts of an old query in a new one: which inputs are the same, and how their columns are named.

A match maps columns of the old tree to columns of the new one. Column pruning may have removed a column that only the
old query reads; it then has no column in the new tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction, substitute_columns
from arctic_runtime.ivm.algebra.expressions import Form, build_column, list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Join,
    Node,
    OneRow,
    Scan,
    SetOperation,
    UnionAll,
    WindowColumns,
    list_columns,
)
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.edits.block import (
    Attached,
    Block,
    Conditions,
    Leaf,
    build_block,
    get_bare_form,
    get_condition_form,
)

Columns = Mapping[str, str]
"""Maps columns of the old tree to columns of the new tree."""

T = TypeVar("T")
_MOST_CHOICES = 200
_LOST = "__arctic_lost_"


@dataclass(frozen=True)
class UnionMatch:
    """The inputs of a union that only the new query has, and those that only the old query has, by their places."""

    added: tuple[int, ...]
    removed: tuple[int, ...]


@dataclass(frozen=True)
class BlockMatch:
    """The block of the old query beside that of the new one.

    `old` is the old block in the columns of the new tree; `columns` are the columns that both trees have. A column that
    the new tree lacks has a name that `name_lost_column` returns. `leaves` has for each leaf of the old block its place
    in the new block, `attached` the same for what is attached to it, None for what the new block lacks. `union` is set
    if both blocks are the rows of a union with other inputs.
    """

    old: Block
    new: Block
    leaves: tuple[int, ...]
    attached: tuple[int | None, ...]
    columns: Columns
    union: UnionMatch | None = None

    @property
    def added_leaves(self) -> tuple[Leaf, ...]:
        return tuple(leaf for place, leaf in enumerate(self.new.leaves) if place not in self.leaves)

    @property
    def added_attached(self) -> tuple[Attached, ...]:
        return tuple(part for place, part in enumerate(self.new.attached) if place not in self.attached)

    @property
    def removed_attached(self) -> tuple[Attached, ...]:
        return tuple(part for part, place in zip(self.old.attached, self.attached, strict=True) if place is None)

    def count_differences(self) -> int:
        """Number of conditions and parts that only one of the two blocks has."""
        conditions = ({get_condition_form(part) for part in block.conditions} for block in (self.old, self.new))
        one, other = conditions
        parts = (*self.added_leaves, *self.added_attached, *self.removed_attached)
        return len(one ^ other) + len(parts)


def name_lost_column(name: str) -> str:
    """Returns the name that a column of the old tree has in a match if the new tree does not have it."""
    return f"{_LOST}{name}"


def match_blocks(old: Block, new: Block) -> BlockMatch | None:
    """Finds all leaves of the old block in the new one; None if the new one lacks any.

    If several leaves are alike, as in a join of a table with itself, the match with the fewest differences is chosen.
    """
    found = [
        match
        for chosen in _choose(old.leaves, new.leaves, _match_leaf)
        if (match := _complete_match(old, new, chosen)) is not None
    ]
    return min(found, key=BlockMatch.count_differences, default=None)


def match_queries(old: Node, new: Node) -> BlockMatch | None:
    """Finds all inputs of an old query in a new one; None if the new one lacks any.

    The new one may lack a table that the old one joins by its key, which is then as in a semi join of the old one. If
    one of them is a union, the other may be a union of other inputs, or one of these inputs alone.
    """
    block, other_block = build_block(old), build_block(new)
    for known in (block, *filter(None, (_to_semi_join(block, leaf) for leaf in block.leaves))):
        match = match_blocks(known, other_block)
        if match is not None:
            return match
    one, other = _as_union(old), _as_union(new)
    union = match_union(one.leaves[0], other.leaves[0])
    return None if union is None else replace(_complete_match(one, other, ((0, union[0]),)), union=union[1])


def _to_semi_join(block: Block, leaf: Leaf) -> Block | None:
    """Turns an inner join into a semi join of the same rows; None if a row may have several partners."""
    rest = tuple(other for other in block.leaves if other is not leaf)
    names = tuple(name for other in rest for name in other.columns)
    own = set(leaf.columns)
    on = tuple(part for part in block.conditions if own.intersection(list_used_columns(part)))
    is_joined_later = any(own.intersection(list_used_columns(value)) for part in block.attached for value in part.on)
    if not rest or is_joined_later or not is_one_partner(names, leaf.node, build_conjunction(on)):
        return None
    if any(not own.union(names).issuperset(list_used_columns(part)) for part in on):
        return None
    conditions = tuple(part for part in block.conditions if not own.intersection(list_used_columns(part)))
    attached = (*block.attached, Attached("semi", leaf.node, on))
    return replace(block, leaves=rest, attached=attached, conditions=conditions)


def _as_union(tree: Node) -> Block:
    """Builds a block whose only leaf is a union: that of the query, or a union of the query alone."""
    block = build_block(tree)
    if len(block.leaves) == 1 and isinstance(block.leaves[0].node, UnionAll):
        return block
    return build_block(UnionAll((tree,), list_columns(tree)))


def _complete_match(old: Block, new: Block, chosen: Sequence[tuple[int, Columns]]) -> BlockMatch:
    columns = {name: made for _, part in chosen for name, made in part.items()}
    places: list[int | None] = []
    for part in old.attached:
        options = ((place, _match_attached(part, other, columns)) for place, other in enumerate(new.attached))
        match = next(((place, made) for place, made in options if made is not None and place not in places), None)
        places.append(None if match is None else match[0])
        columns |= {} if match is None or part.kind != "left" else match[1]
    return BlockMatch(rename_block(old, columns), new, tuple(place for place, _ in chosen), tuple(places), columns)


def _match_attached(old: Attached, new: Attached, outer: Columns) -> Columns | None:
    """Maps the columns of the right sides if both parts are joined in the same way to the same rows; else None."""
    if old.kind != new.kind:
        return None
    columns = match_nodes(old.right, new.right)
    if columns is None:
        return None
    on = {get_condition_form(rename_columns(part, {**outer, **columns})) for part in old.on}
    return columns if on == {get_condition_form(part) for part in new.on} else None


def match_nodes(old: Node, new: Node) -> Columns | None:
    """Maps the output columns of two trees with the same rows, as far as both have a column; None for other rows."""
    return _match_outputs(build_block(old), build_block(new))


def _match_outputs(old: Block, new: Block) -> Columns | None:
    """Maps the output columns of two blocks with the same rows; None for other rows."""
    match = match_blocks(old, new)
    if match is None or match.count_differences() or len(old.leaves) != len(new.leaves):
        return None
    made = {get_bare_form(value): name for name, value in new.values.items()}
    forms = {name: get_bare_form(value) for name, value in match.old.values.items()}
    return {name: made[form] for name, form in forms.items() if form in made}


def _match_leaf(old: Leaf, new: Leaf) -> Columns | None:
    """Maps the columns of two leaves with the same rows, as far as both have a column; None for other rows."""
    if type(old.node) is not type(new.node) or len(old.inputs) != len(new.inputs):
        return None
    one, other = old.node, new.node
    if isinstance(one, OneRow):
        return {}
    if isinstance(one, Scan) and isinstance(other, Scan):
        fields = {field: name for name, field in other.fields}
        is_same = (one.source, one.image) == (other.source, other.image)
        return {name: fields[field] for name, field in one.fields if field in fields} if is_same else None
    if isinstance(one, UnionAll) and isinstance(other, UnionAll):
        match = match_union(old, new)
        return match[0] if match is not None and not match[1].added + match[1].removed else None
    below = [_match_outputs(*pair) for pair in zip(old.inputs, new.inputs, strict=True)]
    columns = [part for part in below if part is not None]
    return _match_operator(one, other, columns) if len(columns) == len(below) else None


def _match_operator(old: Node, new: Node, below: Sequence[Columns]) -> Columns | None:
    """Maps the output columns of two operators whose inputs have the same rows; `below` maps those of the inputs."""
    match old, new:
        case Aggregate(), Aggregate():
            keys = {below[0].get(name) for name in old.keys}
            own = {name: below[0][name] for name in old.keys if name in below[0]}
            return {**own, **_pair(old.aggregates, new.aggregates, below[0])} if keys == set(new.keys) else None
        case WindowColumns(), WindowColumns():
            partition = {below[0].get(name) for name in old.partition}
            made = _pair(old.expressions, new.expressions, below[0])
            return {**below[0], **made} if partition == set(new.partition) else None
        case Distinct(), Distinct():
            return below[0] if _is_whole(below[0], old, new) else None
        case Explode(), Explode():
            is_same = _to_form(old.generator, below[0]) == get_bare_form(new.generator)
            is_same = is_same and old.outer == new.outer and len(old.names) == len(new.names)
            return {**below[0], **dict(zip(old.names, new.names, strict=True))} if is_same else None
        case Join(), Join():
            columns = {**below[0], **below[1]}
            on = _to_form(old.on or exp.true(), columns) == get_bare_form(new.on or exp.true())
            return columns if on and old.kind == new.kind else None
        case SetOperation(), SetOperation():
            places = [
                {list_columns(one).index(a): list_columns(other).index(b) for a, b in part.items()}
                for one, other, part in zip((old.left, old.right), (new.left, new.right), below, strict=True)
            ]
            is_same = (old.kind, old.all) == (new.kind, new.all) and places[0] == places[1]
            made = {old.names[a]: new.names[b] for a, b in places[0].items()}
            return made if is_same and _is_whole(made, old, new) else None
        case _:
            return None


def _is_whole(columns: Columns, old: Node, new: Node) -> bool:
    """Whether a map has all columns of both operators, so that rows are equal by the same columns."""
    return set(columns) == set(list_columns(old)) and set(columns.values()) == set(list_columns(new))


def _pair(old: Sequence[tuple[str, exp.Expr]], new: Sequence[tuple[str, exp.Expr]], below: Columns) -> dict[str, str]:
    made = {get_bare_form(value): name for name, value in new}
    forms = {name: _to_form(value, below) for name, value in old}
    return {name: made[form] for name, form in forms.items() if form in made}


def _to_form(value: exp.Expr, columns: Columns) -> Form:
    return get_bare_form(rename_columns(value, columns))


def match_union(old: Leaf, new: Leaf) -> tuple[Columns, UnionMatch] | None:
    """Finds inputs that both unions have; maps the columns that are the same ones in all of them."""
    assert isinstance(old.node, UnionAll)
    assert isinstance(new.node, UnionAll)
    pairs: dict[int, tuple[int, Columns]] = {}
    for place, part in enumerate(old.inputs):
        taken = {at for at, _ in pairs.values()}
        for at, other in enumerate(new.inputs):
            columns = _match_outputs(part, other) if at not in taken else None
            if columns is not None:
                pairs[place] = (at, columns)
                break
    if not pairs:
        return None
    removed = tuple(place for place in range(len(old.inputs)) if place not in pairs)
    added = tuple(at for at in range(len(new.inputs)) if at not in {at for at, _ in pairs.values()})
    return _match_union_columns(old.node, new.node, pairs), UnionMatch(added, removed)


def _match_union_columns(old: UnionAll, new: UnionAll, pairs: Mapping[int, tuple[int, Columns]]) -> Columns:
    columns: dict[str, str] = {}
    for place, name in enumerate(old.names):
        targets = set()
        for one, (other, part) in pairs.items():
            made = part.get(list_columns(old.inputs[one])[place])
            targets.add(list_columns(new.inputs[other]).index(made) if made is not None else None)
        (target, *others) = targets
        if target is not None and not others:
            columns[name] = new.names[target]
    return columns


def rename_columns(value: exp.Expr, columns: Columns) -> exp.Expr:
    """Renames the columns of an old expression to those of the new tree."""
    named = {name: columns.get(name, name_lost_column(name)) for name in list_used_columns(value)}
    return substitute_columns(value, {name: build_column(made) for name, made in named.items()})


def rename_block(block: Block, columns: Columns) -> Block:
    """Renames the columns of an old block's conditions and values to those of the new tree."""

    def rename_all(conditions: Conditions) -> Conditions:
        return tuple(rename_columns(part, columns) for part in conditions)

    def rename_attached(part: Attached) -> Attached:
        own = {name: columns.get(name, name_lost_column(name)) for name in list_columns(part.right)}
        return replace(part, on=tuple(rename_columns(value, {**columns, **own}) for value in part.on))

    return replace(
        block,
        attached=tuple(map(rename_attached, block.attached)),
        conditions=rename_all(block.conditions),
        values={name: rename_columns(value, columns) for name, value in block.values.items()},
    )


def _choose(
    old: Sequence[Leaf], new: Sequence[Leaf], fits: Callable[[Leaf, Leaf], Columns | None]
) -> Iterator[tuple[tuple[int, Columns], ...]]:
    """Yields ways to choose a leaf of the new block for each one of the old block, at most `_MOST_CHOICES`."""
    options = [
        [(place, columns) for place, leaf in enumerate(new) if (columns := fits(part, leaf)) is not None]
        for part in old
    ]
    tried = 0
    waiting: list[tuple[tuple[int, Columns], ...]] = [()]
    while waiting and tried < _MOST_CHOICES:
        chosen = waiting.pop()
        tried += 1
        if len(chosen) == len(old):
            yield chosen
            continue
        taken = {place for place, _ in chosen}
        waiting.extend((*chosen, option) for option in reversed(options[len(chosen)]) if option[0] not in taken)
