"""The trail of a row: its changes, and for each the changes of upstream rows that made it, back to the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName

Values = Mapping[str, Any]
"""Values of a row by column."""


@dataclass(frozen=True)
class CommittedRun:
    """The run whose commit has a change row."""

    version: int
    """The table's version after the run, as a snapshot id."""

    sequence: int
    """Sequence number of the commit."""

    at: datetime
    """Time of the commit."""

    mode: str = ""
    reason: str = ""
    token: str = ""
    """The run's token, which is in the names of its branches; empty if none is recorded."""


@dataclass(frozen=True)
class Transaction:
    """The change in a source outside of the warehouse, at which a trail ends as it should."""

    source: str
    """Name of the source: the table in the ingested database or topic, or the Iceberg table that others write."""

    operation: str
    """What happened to the row: `insert`, `update` or `delete`."""

    position: str = ""
    """Position of the batch in the source's log of changes; empty if the source has none."""

    at: str = ""
    """Time of the change at the source; empty if it is not known."""


@dataclass(frozen=True)
class UpstreamChanges:
    """The changes of one upstream that made a change of a row, within the window that the run read."""

    table: TableName
    start: int | None
    """Version after which the window begins, as a snapshot id; None for the first version."""

    end: int
    """Version at which the window ends."""

    changes: tuple[RowChange, ...] = ()
    """Change rows that made the change, oldest first."""

    without_effect: int = 0
    """Number of further changed rows that the row is computed from, and without which it would be the same."""

    among: int | None = None
    """Number of change rows of the window that may have made the change, if it is not known which; else None."""

    left_out: int = 0
    """Number of change rows that made the change, and are more than are shown."""

    def mask_values(self, find_mask: Callable[[TableName], Mask]) -> UpstreamChanges:
        """Returns these changes as `RowTrail.mask_values` does."""
        return replace(self, changes=tuple(change.mask_values(find_mask) for change in self.changes))


@dataclass(frozen=True)
class RowChange:
    """One change of a row, with the run that wrote it, and what made it."""

    table: TableName
    key: Values
    action: str
    """`insert`, `update`, `delete` or `upsert`, as in the change table."""

    before: Values | None
    """The row before the change; None if there was none, or if it is not known (`upsert`)."""

    after: Values | None
    """The row after the change; None for a delete."""

    at: str = ""
    """Time of the change, `_ts` of the change row."""

    run: CommittedRun | None = None
    """The run that wrote the change; None if its version has expired."""

    transaction: Transaction | None = None
    """The source's own change, if the table's rows come from outside of the warehouse."""

    upstreams: tuple[UpstreamChanges, ...] = ()
    """The changes of upstreams that made the change."""

    is_proven: bool = False
    """Whether the row was computed again: without the changes of `upstreams` it is as before, with them as after."""

    ends: str = ""
    """Why the trail ends here; empty if it goes on in `upstreams`, or ends with `transaction`."""

    notes: tuple[str, ...] = ()
    """Further remarks for people."""

    @property
    def changed_columns(self) -> tuple[str, ...]:
        """Columns whose values differ before and after; empty unless both rows are known."""
        if self.before is None or self.after is None:
            return ()
        before = self.before
        return tuple(name for name, value in self.after.items() if name in before and repr(before[name]) != repr(value))

    def mask_values(self, find_mask: Callable[[TableName], Mask]) -> RowChange:
        """Returns this change as `RowTrail.mask_values` does."""
        mask = find_mask(self.table)
        return replace(
            self,
            key=mask.hide_row(self.key) or {},
            before=mask.hide_row(self.before),
            after=mask.hide_row(self.after),
            upstreams=tuple(upstream.mask_values(find_mask) for upstream in self.upstreams),
        )


@dataclass(frozen=True)
class RowTrail:
    """The changes of one row, newest first, each with its trail."""

    table: TableName
    key: Values
    changes: tuple[RowChange, ...] = field(default_factory=tuple)
    left_out: int = 0
    """Number of older changes that are not shown."""

    ends: str = ""
    """Why older changes of the row are not known; empty if all are."""

    def mask_values(self, find_mask: Callable[[TableName], Mask]) -> RowTrail:
        """Returns the trail with hashes in the place of all values that the masks of their tables hide."""
        changes = tuple(change.mask_values(find_mask) for change in self.changes)
        return replace(self, key=find_mask(self.table).hide_row(self.key) or {}, changes=changes)
