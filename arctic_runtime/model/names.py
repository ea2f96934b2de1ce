"""Names of tables, of further relations that belong to a table, and of the temporary views of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from arctic_runtime.errors import ConfigError

CHANGES_SUFFIX = "__changes"
BASE_SUFFIX = "__base"
TOTALS_SUFFIX = "__totals"
FORGET_SUFFIX = "__forget"
STAGED_SUFFIX = "__snapshot"
QUARANTINE_SUFFIX = "__quarantine"
CURRENT_SUFFIX = "_current"
CHANGES_VIEW_SUFFIX = "_cdf"

_REFUSED = re.compile(r"[/\\\x00-\x1f\x7f\ud800-\udfff]")
_ESCAPED = re.compile(r"[%.`()$]")
_LEVEL = re.compile(r"`(?:[^`]|``)+`|\w+")
_NAME = re.compile(rf"(?:(?:{_LEVEL.pattern})\.){{0,2}}(?:{_LEVEL.pattern})")
_CHANGES_VIEW = re.compile(r"`changes\(((?:[^`()]|``)*)\)`")


@dataclass(frozen=True, order=True)
class TableName:
    """A table name of three levels; each is plain text, which must be quoted in SQL.

    Raises ConfigError if a level is empty, is `.` or `..`, or contains a slash, a backslash, a control character or
    half of a surrogate pair.
    """

    catalog: str
    schema: str
    name: str

    def __post_init__(self) -> None:
        for part in (self.catalog, self.schema, self.name):
            if not part or _REFUSED.search(part) or part in (".", ".."):
                raise ConfigError(
                    f"{part!r} is not a valid part of a table name.",
                    where=f"{self.catalog!r}, {self.schema!r}, {self.name!r}",
                    expected="at least one character, no slash, backslash or control character",
                    fix="choose another name, for instance with dbt's `alias`",
                )

    def with_name(self, name: str) -> TableName:
        """Returns the name of another relation in the same schema."""
        return TableName(self.catalog, self.schema, name)

    @property
    def changes(self) -> TableName:
        """Name of the change table of this table."""
        return self.with_name(self.name + CHANGES_SUFFIX)

    @property
    def base(self) -> TableName:
        """Name of the base table if this table is merged on read, so that the table's own name is that of a view."""
        return self.with_name(self.name + BASE_SUFFIX)

    @property
    def totals(self) -> TableName:
        """Name of the table with this table's aggregate state: counts, sums and extremes of groups."""
        return self.with_name(self.name + TOTALS_SUFFIX)

    @property
    def quarantine(self) -> TableName:
        """Name of the table with the rows of a model that fail tests, with `on_failed_row: quarantine`."""
        return self.with_name(self.name + QUARANTINE_SUFFIX)

    @property
    def forget_keys_name(self) -> TableName:
        """Name of a temporary table with the keys of rows to forget, which exists while `arctic forget` runs."""
        return self.with_name(self.name + FORGET_SUFFIX)

    @property
    def staging_name(self) -> TableName:
        """Name of a temporary table that collects a snapshot of the source while this table is loaded again."""
        return self.with_name(self.name + STAGED_SUFFIX)

    @property
    def helper_tables(self) -> dict[str, TableName]:
        """Names of the tables that a model may create besides this one, by their descriptions, such as "base"."""
        return {
            "change table": self.changes,
            "base": self.base,
            "aggregate state": self.totals,
            "table of keys to forget": self.forget_keys_name,
        }

    def to_branch_parts(self, branch: str) -> tuple[str, str, str, str]:
        """Returns the parts of the name by which Spark SQL reads or writes one branch of this table."""
        return (*self.parts, f"branch_{branch}")

    @property
    def parts(self) -> tuple[str, str, str]:
        return (self.catalog, self.schema, self.name)

    def __str__(self) -> str:
        return ".".join(self.parts)


def parse_table_name(text: str, near: TableName) -> TableName:
    """Parses a table name of one to three levels; missing levels are taken from `near`.

    Levels may be quoted with backticks. Raises ConfigError if `text` is no such name.
    """
    if not _NAME.fullmatch(text):
        raise ConfigError(
            f"{text!r} is not a valid table name.",
            expected="table, schema.table or catalog.schema.table",
            fix="quote parts with characters other than letters, digits and underscores in backticks",
        )
    parts = [level[1:-1].replace("``", "`") if level[0] == "`" else level for level in _LEVEL.findall(text)]
    return TableName(*near.parts[: 3 - len(parts)], *parts)


def parse_full_name(text: str) -> TableName | None:
    """Parses a table's full name as `str` formats it; None if it is ambiguous, because a part of it contains dots."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        return TableName(*parts)
    except ConfigError:
        return None


def escape_table_name(table: TableName) -> str:
    """Returns the name of a table as one text of three levels, in which each dot separates two levels."""
    return ".".join(_ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", part) for part in table.parts)


def unescape_table_name(text: str) -> TableName:
    """Reads a text of `escape_table_name`; raises ConfigError if it is none."""
    levels = text.split(".")
    if len(levels) != 3:
        raise ConfigError(f"{text!r} is no name of a table.", expected="catalog.schema.table")
    return TableName(*map(_unescape_part, levels))


def format_image_view(image: str, source: TableName) -> str:
    """Returns the name of a run's temporary view with some rows of `source`; `image` is a word for these rows."""
    return f"{image}({escape_table_name(source)})"


def format_changes_view(source: TableName) -> str:
    """Returns the name of the temporary view `changes(…)` from which a model's SQL reads the new rows of `source`.

    `list_changes_read` extracts the names of the sources from the SQL.
    """
    return format_image_view("changes", source)


History = Literal["seen", "all", "theirs"]
"""Rows of sources that a query reads in place of the new rows.

These are the rows that earlier runs consumed (`seen`), the rows that earlier runs and this run consume (`all`), or the
rows that other runs consumed during this run (`theirs`).
"""


def format_history_view(history: History, source: TableName) -> str:
    """Returns the name of the temporary view with the rows of `source` that `history` stands for."""
    return f"{history} {format_changes_view(source)}"


def replace_with_history(history: History, sql: str) -> str:
    """Returns a model's SQL changed to read the rows of its sources that `history` stands for, in place of new rows.

    The names of `format_changes_view` in it are replaced by those of `format_history_view`.
    """
    return _CHANGES_VIEW.sub(lambda match: f"`{history} {match[0][1:]}", sql)


def rename_tables(sql: str, tables: Mapping[TableName, TableName]) -> str:
    """Replaces the names of tables, and of the views of their changes, in a compiled query; `tables` maps old ones."""
    names = {
        write(old): write(new) for old, new in tables.items() if old != new for write in (_quote_table, _quote_changes)
    }
    if not names:
        return sql
    longest_first = sorted(names, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: names[match[0]], sql)


def _quote_table(name: TableName) -> str:
    return ".".join(_quote_part(part) for part in name.parts)


def _quote_changes(name: TableName) -> str:
    return _quote_part(format_changes_view(name))


def _quote_part(text: str) -> str:
    return f"`{text.replace('`', '``')}`"


def list_changes_read(sql: str) -> tuple[TableName, ...]:
    """Lists the tables whose new rows a model's SQL reads, in order of appearance, each once."""
    matches = _CHANGES_VIEW.finditer(sql)
    names = (TableName(*map(_unescape_part, match[1].split("."))) for match in matches if match[1].count(".") == 2)
    return tuple(dict.fromkeys(names))


def _unescape_part(part: str) -> str:
    return re.sub(r"%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), part)
