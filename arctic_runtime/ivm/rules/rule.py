"""Interface of an operator's rule for incremental maintenance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from arctic_runtime.ivm.algebra.tree import Node
from arctic_runtime.ivm.rules.inputs import Inputs, Names

Operator = TypeVar("Operator")


@dataclass(frozen=True)
class Rule(Generic[Operator]):
    """The functions that derive changes of an operator's result from changes of its inputs.

    `delta` and `touched` are called only if a source below the operator has changed.
    """

    delta: Callable[[Operator, Inputs], Node | None]
    """Derives exactly the added and removed rows, as a Z-set."""

    touched: Callable[[Operator, Names, Inputs], Node | None]
    """Derives the values of some columns in added and removed rows, or a superset."""

    either: Callable[[Operator, Names, Inputs], Node]
    """Derives the values of some columns in all rows before and after the changes, or a superset."""
