"""Comparisons of columns with constants, by which files of a table are skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operator = Literal["=", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class ColumnLimit:
    """The condition that a column of a table compares so with a constant; the column's name is as the query has it."""

    column: str
    operator: Operator
    value: str | int | float
