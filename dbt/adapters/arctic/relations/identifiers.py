"""Quotes, checks and parses names and literals of SQL, and converts column names in a configuration to SQL.

Names of columns may have any case and characters, and backticks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal

from dbt_common.exceptions import CompilationError

from arctic_runtime.plan.config.foreign_translations import list_transforms, list_transforms_column_first
from arctic_runtime.spark.engine.statement import quote_text


def quote_identifier(name: str) -> str:
    """Returns the name in backticks, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def check_identifier(name: str, kind: str) -> str:
    """Returns `name` if it can be the name of a table, view or schema; else raises CompilationError.

    `kind` is the kind of the object, such as "schema". Characters are refused because names become folders of the
    warehouse, and because schemas are stored joined by dots.
    """
    if not name:
        raise CompilationError(f"The name of a {kind} is empty; give it one.")
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise CompilationError(f"The name of a {kind} has a control character: {name!r}; take it out.")
    refused = "/\\." if kind == "schema" else "/\\"
    for character in refused:
        if character in name:
            raise CompilationError(
                f"The name of a {kind} has a {character!r}, which a warehouse can't hold: {name!r}; rename it."
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


_PLAIN_PART = re.compile(r"[\w.]+|.*[`(].*", re.DOTALL)


def to_names(configured: Any) -> list[str]:
    """Converts a configured text, or list of texts, to a list; raises CompilationError for other values."""
    if configured is None:
        return []
    if isinstance(configured, str):
        return [configured]
    if not isinstance(configured, list | tuple) or not all(isinstance(text, str) for text in configured):
        raise CompilationError(
            f"{configured!r} names no columns.\n  expected: a column, or a list of columns\n"
            "  what to do: write the names as texts"
        )
    return list(configured)


def quote_columns(configured: Any, columns: Iterable[str]) -> list[str]:
    """Quotes the configured names, without duplicates; texts that are not in `columns` are left unchanged.

    Such texts are SQL expressions.
    """
    known = {column.lower(): column for column in columns}
    spelled = ((known.get(unquote_identifier(text).lower()), text) for text in to_names(configured))
    return list(dict.fromkeys(quote_identifier(column) if column is not None else text for column, text in spelled))


def require_columns(key: str, configured: Any, columns: Collection[str]) -> list[str]:
    """Quotes names like `quote_columns`; raises CompilationError if a text is neither a column nor a field of one.

    `key` names the setting in the error.
    """
    known = {column.lower() for column in columns}
    for text in to_names(configured):
        if (
            unquote_identifier(text).lower() not in known
            and unquote_identifier(text.split(".")[0]).lower() not in known
        ):
            raise CompilationError(
                f"`{key}` names {text!r}, which is no column of the table.\n"
                f"  expected: {', '.join(sorted(columns))}\n  what to do: write the name of a column"
            )
    return quote_columns(configured, columns)


def to_partition_parts(partition_by: Any, partitioned_by: Any = None) -> list[str]:
    """Returns the parts of a `partitioned by` clause: names, quoted if necessary, and transforms such as `days(at)`.

    `partition_by` may have another adapter's form; `partitioned_by`, a key of dbt-athena, is used if it is not set.
    """
    transforms = list_transforms(partition_by) if partition_by else list_transforms_column_first(partitioned_by)
    texts = to_names(partition_by) if transforms is None else transforms
    return [text if _PLAIN_PART.fullmatch(text) else quote_identifier(text) for text in texts]


def choose_updated(update: Any, exclude: Any, columns: Collection[str]) -> list[str]:
    """Returns the quoted columns that a merge updates; raises CompilationError for a name that is not a column.

    `update` and `exclude` are the keys `merge_update_columns` and `merge_exclude_columns`, of which only one may be
    set.
    """
    if update and exclude:
        raise CompilationError(
            "Both `merge_update_columns` and `merge_exclude_columns` are set.\n  what to do: leave one of them out"
        )
    if update:
        return require_columns("merge_update_columns", update, columns)
    excluded = require_columns("merge_exclude_columns", exclude, columns)
    return [name for name in map(quote_identifier, columns) if name not in excluded]


NamedColumns = Literal["columns", "columns_or_expressions", "partitions", "updated"]

NAMED_COLUMNS: Final[Mapping[NamedColumns, Callable[..., list[str]]]] = {
    "columns": require_columns,
    "columns_or_expressions": quote_columns,
    "partitions": to_partition_parts,
    "updated": choose_updated,
}
