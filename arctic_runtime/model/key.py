"""A primary key as a table's properties keep it."""

from __future__ import annotations

import re
from collections.abc import Iterable


def key_text(key: Iterable[str]) -> str:
    """The names of a key as one text; `key_names` is the reverse."""
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in key)


def key_names(text: str) -> tuple[str, ...]:
    """The names of a key that was kept as text; none for an empty text, the key of a table with one row."""
    parts = re.findall(r"(?:[^\\,]|\\.)+", text, flags=re.DOTALL)
    return tuple(re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts)
