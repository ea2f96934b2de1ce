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
    """Rule that turns changes of an operator's inputs into changes of its rows.

    `delta` and `touched` are called only where a source below the operator has changed.
    """

    delta: Callable[[Operator, Inputs], Node | None]
    """The added and removed rows as a Z-set, exactly."""

    touched: Callable[[Operator, Names, Inputs], Node | None]
    """The values that rows which came or went have in some columns, and perhaps more."""

    either: Callable[[Operator, Names, Inputs], Node]
    """The values that rows have in some columns before or after, and perhaps more."""
