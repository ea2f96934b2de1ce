"""How a query's result follows the changes of what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.incremental.pushdown import pushed_down
from arctic_runtime.plan.incremental.refusal import NotMaintained
from arctic_runtime.plan.incremental.rules.apply import delta, touched
from arctic_runtime.plan.incremental.rules.partners import has_link
from arctic_runtime.plan.incremental.rules.restrict import restrict
from arctic_runtime.plan.incremental.rules.terms import changes, present
from arctic_runtime.plan.incremental.tree import (
    Aggregate,
    Distinct,
    Filter,
    Given,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    Window,
    walk,
)
from arctic_runtime.plan.incremental.unique import is_unique

AFFECTED = "__arctic_affected"
"""The name of the rows, keys of the result, for which `Units.new` is computed."""

_NO_LINK = "what changed is joined, or asked for by IN or EXISTS, without an equality of columns"


@dataclass(frozen=True)
class Deltas:
    """`changes` has the tree's columns and WEIGHT: the rows that come and go, once those that do both cancel out."""

    changes: Node


@dataclass(frozen=True)
class Units:
    """Keys of all rows that may differ, each once, and the rows with these keys as they are now.

    `affected` has the key's columns; `new` has the tree's columns and reads the keys as `Given(AFFECTED, key)`. A row
    with an affected key that is not in `new` is gone. A key may be there that the result neither has nor had.
    """

    affected: Node
    new: Node


Maintenance = Deltas | Units


def maintain(tree: Node, key: tuple[str, ...], changed: frozenset[TableName]) -> Maintenance:
    """Plans the maintenance of a result whose rows are identified by `key`, columns of the tree.

    Changed rows are joined to the rest where the operators above them allow and the key is proven to identify rows;
    otherwise the units they are in are computed again. Raises NotMaintained where all rows could be affected.
    """
    _refuse(tree, key, changed)
    found = pushed_down(tree)
    for node in _changing(found, changed):
        _refuse_everything(node, changed)
    if all(_is_linear(node) for node in _changing(found, changed)) and is_unique(found, key):
        return Deltas(present(delta(found, changed)))
    affected = present(touched(found, key, changed))
    return Units(Distinct(affected), restrict(found, key, Given(AFFECTED, key)))


def _refuse(tree: Node, key: tuple[str, ...], changed: frozenset[TableName]) -> None:
    if not key:
        raise NotMaintained("ONE_ROW", "the table has a single row, which takes all rows to compute")
    if not changes(tree, changed):
        raise NotMaintained("NOTHING_NEW", "none of the tables that it reads has changed")


def _refuse_everything(node: Node, changed: frozenset[TableName]) -> None:
    because = _everything(node, changed)
    if because is not None:
        raise NotMaintained("EVERYTHING_AFFECTED", because)


def _changing(node: Node, changed: frozenset[TableName]) -> Iterator[Node]:
    return (found for found in walk(node) if changes(found, changed))


def _is_linear(node: Node) -> bool:
    if isinstance(node, Join):
        return node.kind != "full"
    return isinstance(node, Scan | Project | Filter | SemiJoin)


def _everything(node: Node, changed: frozenset[TableName]) -> str | None:
    """Why any change below this operator is one of all rows; None if it is not."""
    match node:
        case Aggregate(keys=()):
            return "an aggregate without groups has changed"
        case Window(partition=()):
            return "a window over all rows has changed, one without PARTITION BY"
        case SemiJoin(left=left, right=right, on=on) | Join(kind="left", left=left, right=right, on=on):
            is_open = changes(right, changed) and not has_link(left, right, on)
            return _NO_LINK if is_open else None
        case Join(kind="full", left=left, right=right, on=on):
            return None if has_link(left, right, on) else _NO_LINK
        case Join(left=left, right=right, on=on):
            is_open = any(changes(side, changed) and is_unique(side, ()) for side in (left, right))
            is_open = is_open and not has_link(left, right, on)
            return "a single row that all others are joined to has changed" if is_open else None
        case _:
            return None
