"""A primary key as a table's properties keep it."""

from __future__ import annotations

import re
from collections.abc import Iterable


def format_key(key: Iterable[str]) -> str:
    """The names of a key as one text; `parse_key` is the reverse."""
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in key)


def parse_key(text: str) -> tuple[str, ...]:
    """The names of a key that was kept as text; none for an empty text, the key of a table with one row."""
    parts = re.findall(r"(?:[^\\,]|\\.)+", text, flags=re.DOTALL)
    return tuple(re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts)
