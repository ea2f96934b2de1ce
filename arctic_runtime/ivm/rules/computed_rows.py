"""Selects the input rows from which a rule computes expressions, so that no expression raises an unexpected error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.failing import can_fail
from arctic_runtime.ivm.algebra.tree import Node
from arctic_runtime.ivm.rules.inputs import Inputs, Names, pick_some
from arctic_runtime.ivm.rules.terms import require_term

Read = Callable[[Node, Names], Node | None]
ReadRows = Callable[[Node, Names, Inputs], Node]


def select_computed(
    node: Node, values: Sequence[exp.Expr], names: Names, inputs: Inputs, read: Read, read_rows: ReadRows
) -> Node:
    """Derives rows of `node` with the columns `names` and the columns that the expressions in `values` read.

    `read` derives the rows, to which it may add rows that exist neither before nor after the changes. So if an
    expression can raise an error, `read_rows` derives them instead, without such rows but at a higher cost.
    """
    needed = pick_some(
        tuple(dict.fromkeys((*names, *(name for value in values for name in list_used_columns(value))))), node
    )
    if any(can_fail(value, inputs.known.types) for value in values):
        return read_rows(node, needed, inputs)
    return require_term(read(node, needed))
