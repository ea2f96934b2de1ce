"""Suggestions for unknown names: the known name that the user probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most similar to `name`; None if none is similar."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return close[0] if close else None


def suggest_nearest(name: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean 'x'?)` with the known name x that is most similar to `name`, or "" if none is similar."""
    nearest = find_nearest(name, known)
    return "" if nearest is None else f" (did you mean '{nearest}'?)"
