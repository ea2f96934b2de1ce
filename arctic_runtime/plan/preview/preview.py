"""A preview: what the next run of each edited model, and of each model below, will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.preview.amount import NONE, Amount, sum_amounts

PreviewWay = Literal["nothing", "own result", "incremental", "full", "refused"]
"""The way in which a run will compute a table: not at all, from its own rows, by changes of its sources, or in full.

`refused` is a run that will end with an error before it does anything.
"""


@dataclass(frozen=True)
class PastRuns:
    """Past runs of a model whose time was estimated before, and the median error of these estimates.

    The error is relative to the measured seconds; None if no estimate can be judged yet.
    """

    count: int = 0
    error: float | None = None


@dataclass(frozen=True)
class RunCost:
    """Bytes and rows that a run reads and writes, and the seconds that it takes."""

    bytes_read: float = 0.0
    bytes_written: float = 0.0
    rows_read: float = 0.0
    rows_written: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class RunAmounts:
    """Estimated bytes, rows and seconds of a run, each with its range."""

    bytes_read: Amount = NONE
    bytes_written: Amount = NONE
    rows_read: Amount = NONE
    rows_written: Amount = NONE
    seconds: Amount = NONE

    @classmethod
    def from_costs(cls, expected: RunCost, others: Sequence[RunCost]) -> RunAmounts:
        """Builds the amounts of a run with the cost `expected`, whose range spans the costs `others`."""
        return cls(
            *(
                Amount.from_estimates(getattr(expected, part.name), [getattr(cost, part.name) for cost in others])
                for part in fields(RunCost)
            )
        )

    @property
    def bytes(self) -> Amount:
        return self.bytes_read + self.bytes_written

    @property
    def rows(self) -> Amount:
        return self.rows_read + self.rows_written


@dataclass(frozen=True)
class ModelPreview:
    """What the next run of one model will do, and what that costs."""

    table: TableName
    is_edited: bool
    """Whether the model's query or configuration is another one than that of its last run; True for a new model."""

    way: PreviewWay
    reason: str = ""
    """The code of the reason for the way; empty for a refusal."""

    because: str = ""
    """Explanation of the reason, or the message of the error."""

    amounts: RunAmounts = field(default_factory=RunAmounts)
    past_runs: PastRuns = field(default_factory=PastRuns)
    tables_below: int = 0
    """Number of tables that are computed from this one, also through others, and that its changes may reach."""

    readers_below: int = 0
    """Number of models of other projects that read this table or one of those below."""

    frozen_where: str = ""
    """The predicate of the rows that stay as they are, whatever the run computes; empty for none."""

    @property
    def has_cost(self) -> bool:
        return self.way not in ("nothing", "refused")


@dataclass(frozen=True)
class Preview:
    """The previews of the touched models, the edited ones before those that read them."""

    models: tuple[ModelPreview, ...] = ()
    untouched: int = 0
    """Number of models of the project that no edit touches."""

    tables_below: int = 0
    """Number of tables below edited ones that may see their changes."""

    readers_below: int = 0
    """Number of models of other projects that may see changes."""

    @property
    def amounts(self) -> RunAmounts:
        """The sums over all models; seconds are those of one run after the other."""
        return RunAmounts(
            *(sum_amounts(getattr(model.amounts, part.name) for model in self.models) for part in fields(RunAmounts))
        )

    @property
    def run_count(self) -> int:
        """Number of models whose next run has something to do."""
        return sum(model.has_cost for model in self.models)

    @property
    def is_refused(self) -> bool:
        return any(model.way == "refused" for model in self.models)
