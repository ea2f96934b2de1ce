"""A condition of the rows of a model, which decides whether a row is in the table or in its quarantine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RowCondition:
    """A test of single rows, by its name; `passes` is SQL over the model's columns, true or false and never null."""

    test: str
    passes: str
