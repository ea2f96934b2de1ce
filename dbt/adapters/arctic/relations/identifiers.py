"""Names on their way into SQL."""

from __future__ import annotations

from dbt_common.exceptions import CompilationError


def quoted(name: str) -> str:
    """The name between backticks, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def checked(name: str, what: str) -> str:
    """The same name where a catalog can hold it as a table, view or schema; raises CompilationError where not.

    Such a name becomes a folder of the warehouse, and schemas are stored joined by dots.
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


def unquoted(name: str) -> str:
    """The name that `quoted` was given; a name without backticks around it is returned as it is."""
    if len(name) >= 2 and name.startswith("`") and name.endswith("`"):
        return name[1:-1].replace("``", "`")
    return name
