"""Positions of sources of change data: texts that only the transport which wrote them can parse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_SHOWN = 80
"""The maximum number of characters of a position that are shown to people."""


@dataclass(frozen=True)
class ParsedPosition:
    """A position in a source's changes, as parsed by its transport so that it can be compared and shown.

    `text` is the position without definitions of tables, which may be long. `description` is the position in the terms
    of the source. `log_places` maps each log of the source, such as a partition, to a comparable place in it; None if
    unknown. `is_whole` is False if the position is inside of a transaction or a snapshot.
    """

    text: str
    description: str
    log_places: Mapping[Any, Any] | None = None
    is_whole: bool = False

    def describe_position(self) -> str:
        """Returns the description for people, cut if it is long."""
        return self.description if len(self.description) <= _SHOWN else f"{self.description[: _SHOWN - 1]}…"

    def is_within(self, other: ParsedPosition) -> bool:
        """Whether this position is at or before `other`, in every log; False if that is not known."""
        places, ends = self.log_places, other.log_places
        if places is None or ends is None:
            return False
        return places.keys() <= ends.keys() and all(place <= ends[log] for log, place in places.items())


ParsePosition = Callable[[str], ParsedPosition]
"""Parses a position of a source; it is declared by the source's connector. A text that can't be parsed stays opaque."""


def keep_opaque(text: str) -> ParsedPosition:
    """Returns a position of which only the text is known, so that it can't be compared."""
    return ParsedPosition(text, text)
