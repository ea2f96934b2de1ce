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
    """Functions that derive changes of an operator's result, as trees, from changes of its inputs.

    `delta` and `touched` are called only if a source below the operator has changed.
    """

    delta: Callable[[Operator, Inputs], Node | None]
    """Derives exactly the added and removed rows of the operator's result, as a Z-set."""

    touched: Callable[[Operator, Names, Inputs], Node | None]
    """Derives the values of some columns in added and removed rows of the result, or a superset of these values."""

    either: Callable[[Operator, Names, Inputs], Node]
    """Derives the values of some columns in all rows of the result before and after the changes, or a superset."""
