"""Quotes, checks and parses names and literals of SQL."""

from __future__ import annotations

import re

from dbt_common.exceptions import CompilationError

from arctic_runtime.spark.engine.statement import quote_text


def quote_identifier(name: str) -> str:
    """Returns the name in backticks, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def check_identifier(name: str, what: str) -> str:
    """Returns `name` if it can be the name of a table, view or schema; else raises CompilationError.

    `what` is the kind of the object, such as "schema". Characters are refused because names become folders of the
    warehouse, and because schemas are stored joined by dots.
    """
    if not name:
        raise CompilationError(f"The name of a {what} is empty; give it one.")
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise CompilationError(f"The name of a {what} has a control character: {name!r}; take it out.")
    refused = "/\\." if what == "schema" else "/\\"
    for character in refused:
        if character in name:
            raise CompilationError(
                f"The name of a {what} has a {character!r}, which a warehouse can't hold: {name!r}; rename it."
            )
    return name


def unquote_identifier(name: str) -> str:
    """Returns the name without its backticks, as before `quote_identifier`; unchanged if it has none."""
    if len(name) >= 2 and name.startswith("`") and name.endswith("`"):
        return name[1:-1].replace("``", "`")
    return name


def parse_literal(literal: str) -> str:
    """Returns the text of a literal that `quote_text` wrote; text without quotes is returned unchanged."""
    if len(literal) < 2 or literal[0] != literal[-1] or literal[0] not in "'\"":
        return literal
    return _ESCAPE.sub(lambda match: _CHARACTERS[match[0]], literal[1:-1])


_CHARACTERS = {quote_text(character)[1:-1]: character for character in "$\\'\n\r\t\x00\x1a"}
_ESCAPE = re.compile("|".join(map(re.escape, _CHARACTERS)))
