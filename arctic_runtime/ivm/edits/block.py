"""Blocks: the joins, conditions and expressions at the top of a tree, without the order in which they were written.

Two queries are compared by their blocks, so it does not matter whether a condition stands in a subquery or above it, or
in which order tables are joined. Operators that are no join, filter or projection are leaves of a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction, split_conjuncts, substitute_columns
from arctic_runtime.ivm.algebra.expressions import (
    Form,
    build_column,
    get_form,
    list_used_columns,
    transform_expression,
    unwrap_parens,
)
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Projection,
    SemiJoin,
    WindowColumns,
    list_children,
    list_columns,
)
from arctic_runtime.ivm.canonical.expressions import FLIPPED
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters

Conditions = tuple[exp.Expr, ...]
Values = Mapping[str, exp.Expr]
Known = Mapping[Form, exp.Expr]


@dataclass(frozen=True)
class Leaf:
    """An input of a block's inner joins, with the blocks of its own inputs.

    The block of the input of a group, a window or a DISTINCT has no conditions over its keys; they are conditions of
    the block above, which has the same meaning.
    """

    node: Node
    inputs: tuple[Block, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return list_columns(self.node)


@dataclass(frozen=True)
class Attached:
    """The right side of a left join, or of a semi or anti join, and the conjuncts of its condition."""

    kind: Literal["left", "semi", "anti"]
    right: Node
    on: Conditions

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rows of the block get from the right side."""
        return list_columns(self.right) if self.kind == "left" else ()


@dataclass(frozen=True)
class Block:
    """Inner joins of `leaves`, then the joins with `attached`, then the rows for which all `conditions` are true.

    `values` are the output columns, as expressions over the columns of the leaves and of left joins.
    """

    leaves: tuple[Leaf, ...]
    attached: tuple[Attached, ...] = ()
    conditions: Conditions = ()
    values: Values = field(default_factory=dict)


def build_block(node: Node) -> Block:
    """Builds the block at the top of a tree."""
    match node:
        case Projection(child=child, expressions=expressions):
            below = build_block(child)
            return replace(below, values={name: substitute_columns(v, below.values) for name, v in expressions})
        case Filter(child=child, condition=condition):
            below = build_block(child)
            return replace(below, conditions=(*below.conditions, *_split_over(condition, below.values)))
        case Join(kind="inner", left=left, right=right, on=on):
            one, other = build_block(left), build_block(right)
            values = {**one.values, **other.values}
            conditions = (*one.conditions, *other.conditions, *_split_over(on, values))
            return Block((*one.leaves, *other.leaves), (*one.attached, *other.attached), conditions, values)
        case Join(kind="left", left=left, right=right, on=on):
            below = build_block(left)
            part = Attached("left", right, _split_over(on, below.values))
            own = {name: build_column(name) for name in list_columns(right)}
            return replace(below, attached=(*below.attached, part), values={**below.values, **own})
        case SemiJoin(kind=kind, left=left, right=right, on=on):
            below = build_block(left)
            part = Attached(kind, right, _split_over(on, below.values))
            return replace(below, attached=(*below.attached, part))
        case _:
            return _build_leaf(node)


def _build_leaf(node: Node) -> Block:
    inputs = tuple(map(build_block, list_children(node)))
    lifted: Conditions = ()
    if keys := _list_keys(node):
        known = {get_bare_form(inputs[0].values[name]): build_column(name) for name in keys}
        raised = [(part, express(part, known)) for part in inputs[0].conditions]
        lifted = tuple(value for _, value in raised if value is not None)
        inputs = (replace(inputs[0], conditions=tuple(part for part, value in raised if value is None)),)
    return Block((Leaf(node, inputs),), (), lifted, {name: build_column(name) for name in list_columns(node)})


def _list_keys(node: Node) -> tuple[str, ...]:
    """Lists the columns over which a filter has the same result above and below an operator with one input."""
    match node:
        case Aggregate(keys=keys) | WindowColumns(partition=keys):
            return keys
        case Distinct(child=child):
            return list_columns(child)
        case _:
            return ()


def _split_over(condition: exp.Expr | None, values: Values) -> Conditions:
    return tuple(substitute_columns(part, values) for part in split_conjuncts(condition))


def build_tree(block: Block, names: Iterable[str]) -> Node:
    """Builds the tree of a block, with the output columns `names`."""
    first, *others = (leaf.node for leaf in block.leaves)
    for other in others:
        first = Join("inner", first, other, None)
    for part in block.attached:
        on = build_conjunction(part.on)
        first = (
            Join("left", first, part.right, on) if part.kind == "left" else SemiJoin(part.kind, first, part.right, on)
        )
    condition = build_conjunction(block.conditions)
    filtered = first if condition is None else Filter(first, condition)
    return push_down_filters(Projection(filtered, tuple((name, block.values[name]) for name in names)))


def express(value: exp.Expr, known: Known) -> exp.Expr | None:
    """Writes an expression with the `known` ones in the place of its parts; None if that leaves any other column."""
    is_open = False

    def visit(part: exp.Expr) -> exp.Expr:
        nonlocal is_open
        own = known.get(get_bare_form(part))
        if own is not None:
            return own.copy()
        is_open = is_open or isinstance(part, exp.Column)
        return part

    made = transform_expression(value, visit)
    return None if is_open else made


def list_missing_columns(value: exp.Expr, known: Known) -> tuple[str, ...]:
    """Lists the columns of an expression that `express` can't replace by `known` ones."""
    missing: list[str] = []

    def visit(part: exp.Expr) -> exp.Expr:
        own = known.get(get_bare_form(part))
        if own is not None:
            return own.copy()
        if isinstance(part, exp.Column):
            missing.append(part.name)
        return part

    transform_expression(value, visit)
    return tuple(missing)


def get_bare_form(value: exp.Expr) -> Form:
    """Returns the form of an expression, the same for equal expressions, whatever parentheses they have."""
    bare = unwrap_parens(value)
    if any(type(part) is exp.Paren for part in bare.walk()):
        bare = bare.copy()
        for part in list(bare.find_all(exp.Paren)):
            if type(part) is exp.Paren:
                part.replace(part.this)
    return get_form(bare)


def get_condition_form(condition: exp.Expr) -> Form:
    """Returns the form of a condition, the same if only the sides of a comparison are exchanged."""
    bare = unwrap_parens(condition)
    if isinstance(bare, exp.EQ | exp.NullSafeEQ | exp.NEQ):
        return (bare.key, *sorted((get_bare_form(bare.left), get_bare_form(bare.right)), key=repr))
    if isinstance(bare, exp.GT | exp.GTE):
        bare = FLIPPED[type(bare)](this=bare.right.copy(), expression=bare.left.copy())
    return get_bare_form(bare)


def name_columns(values: Iterable[exp.Expr]) -> frozenset[str]:
    """Names of all columns that expressions read."""
    return frozenset(name for value in values for name in list_used_columns(value))
