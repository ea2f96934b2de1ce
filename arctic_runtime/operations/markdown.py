"""Markdown of reports that are comments on pull requests."""

from __future__ import annotations


def escape_text(text: str) -> str:
    """Escapes what Markdown or HTML would not show as it is."""
    for character in "\\`*_[]|~":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
