"""Positions of sources of change data: texts that only the transport that wrote them can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_SHOWN = 80
"""The longest text of a position that is shown to people."""


@dataclass(frozen=True)
class ParsedPosition:
    """A position as its transport reads it.

    `text` is the position without definitions of tables, which may be long. `description` says it in the terms of the
    source. `log_places` are the places in the logs of the source, by log, in values that can be compared; None if they
    are not known. It `is_whole` if it lies neither inside of a transaction nor of a snapshot.
    """

    text: str
    description: str
    log_places: Mapping[Any, Any] | None = None
    is_whole: bool = False

    def describe_position(self) -> str:
        """The description for people; the end of a long one is left out."""
        return self.description if len(self.description) <= _SHOWN else f"{self.description[: _SHOWN - 1]}…"

    def is_within(self, other: ParsedPosition) -> bool:
        """Whether all events up to this position are up to another one too; False if that is not known."""
        places, ends = self.log_places, other.log_places
        if places is None or ends is None:
            return False
        return places.keys() <= ends.keys() and all(place <= ends[log] for log, place in places.items())


ParsePosition = Callable[[str], ParsedPosition]
"""Reads a position, as the connector of its source declares it. A text that it can't read stays opaque."""


def keep_opaque(text: str) -> ParsedPosition:
    """A position of which nothing but its text is known."""
    return ParsedPosition(text, text)
