"""Suggestions for names that are unknown: the known one that a writer probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to a name; None if none is close."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return close[0] if close else None


def suggest_nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` if one of the known names is close, else an empty text."""
    nearest = find_nearest(name, known)
    return "" if nearest is None else f" (did you mean '{nearest}'?)"
