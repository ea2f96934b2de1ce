"""Why a query can't be maintained."""

from __future__ import annotations

from arctic_runtime.model.step import Reason


class NotMaintained(Exception):
    """A query, or a change to what it reads, that no rule covers; it is recomputed in full and compared.

    `reason` is a code, `because` one line for people.
    """

    def __init__(self, reason: Reason, because: str) -> None:
        super().__init__(f"{reason}: {because}")
        self.reason = reason
        self.because = because
