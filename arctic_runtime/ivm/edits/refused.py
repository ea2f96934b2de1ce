"""The error for an edit of a query that no rule covers."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.refusal import NotMaintained


class NotEdited(NotMaintained):
    """Raised if the result of an edited query can't be derived from the table; the text explains it to users."""

    def __init__(self, because: str) -> None:
        super().__init__("QUERY_CHANGED", because)
