"""Positions in the changes of a source: texts whose format is known only to the transport that reads the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_SHOWN = 80
"""Maximum number of characters of a position that are shown to users."""


@dataclass(frozen=True)
class ParsedPosition:
    """A position in a source's changes, parsed by the source's transport, so that it can be compared and shown."""

    text: str
    """The position as a text, but without table definitions, which may be long."""

    description: str
    """The position in the terms of the source, such as a binlog file."""

    log_positions: Mapping[Any, Any] | None = None
    """Maps each log of the source, such as a Kafka partition, to a place in it; None if it is not known.

    Places in the same log can be compared by `<=`.
    """

    is_transaction_end: bool = False
    """False if the position is inside of a transaction or a snapshot."""

    def describe_position(self) -> str:
        """Returns `description` for users, cut at a maximum length."""
        return self.description if len(self.description) <= _SHOWN else f"{self.description[: _SHOWN - 1]}…"

    def is_within(self, other: ParsedPosition) -> bool:
        """Whether this position is at or before `other` in every log; False if this is not known."""
        own, others = self.log_positions, other.log_positions
        if own is None or others is None:
            return False
        return own.keys() <= others.keys() and all(position <= others[log] for log, position in own.items())


ParsePosition = Callable[[str], ParsedPosition]
"""Parses a position of a source; each connector has its own. A text that can't be parsed is kept as it is."""


def keep_opaque(text: str) -> ParsedPosition:
    """Returns an unparsed position: only its text is known, so that it can't be compared."""
    return ParsedPosition(text, text)
