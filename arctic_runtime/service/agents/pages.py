"""Pages of the documentation that agents can read: copies in the wheel, the originals in a checkout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from arctic_runtime.errors import ConfigError

PAGES: Final[Mapping[str, str]] = {
    "glossary": "the words of this project, each with its meaning",
    "agents": "what agents may ask and propose, and how answers are limited",
    "concepts": "keyed tables, change tables, versions, and models of change events",
    "commands": "what each operation shows, and how to read its answer",
    "incremental": "how a query is maintained, and the reasons of runs",
    "troubleshooting": "errors, and what to do about them",
}
"""The name of each page, and what it has."""

_PACKED = Path(__file__).parent / "docs"
_CHECKOUT = Path(__file__).parents[3] / "docs"


def read_page(name: str) -> str:
    """Returns a page in Markdown; raises ConfigError if there is none of this name."""
    if name not in PAGES:
        raise ConfigError(f"There is no page {name!r}.", expected=f"one of {', '.join(PAGES)}")
    folder = _PACKED if _PACKED.is_dir() else _CHECKOUT
    return (folder / f"{name}.md").read_text(encoding="utf-8")
