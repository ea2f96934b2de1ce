"""Brings a query that another adapter has compiled to the text that dbt-arctic compiles: its names of relations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.sql.types import quote_field

CHANGES_MARKER = "/* arctic: changes */"
"""Comment before the name of a relation of which a query reads the new rows; the dbt package `arctic` writes it."""

_LITERALS = r"""\b[rR]'[^']*'|\b[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_COMMENTS = r"--[^\n]*|/\*.*?\*/"


def rewrite_relations(sql: str, tables: Mapping[str, TableName]) -> str:
    """Replaces the names of relations in a compiled query by those of `tables`, quoted as dbt-arctic quotes them.

    The keys of `tables` are the names as the adapter has written them. Names in comments are replaced too, as dbt
    writes them by `ref` there, and names in literals are kept. A name behind `CHANGES_MARKER` becomes the name of the
    view of the table's new rows.
    """
    if not tables:
        return sql
    names = _match_names(tables)
    parts = re.compile(
        f"{re.escape(CHANGES_MARKER)}\\s*(?P<changed>{names})|(?P<name>{names})|{_LITERALS}|(?P<comment>{_COMMENTS})",
        re.DOTALL,
    )
    in_comments = re.compile(names)

    def rewrite_part(part: re.Match[str]) -> str:
        if part["changed"]:
            return quote_field(format_changes_view(tables[part["changed"]]))
        if part["name"]:
            return _quote_table(tables[part["name"]])
        if part["comment"]:
            return in_comments.sub(lambda name: _quote_table(tables[name[0]]), part["comment"])
        return part[0]

    return parts.sub(rewrite_part, sql)


def _match_names(tables: Mapping[str, TableName]) -> str:
    """Returns a pattern for whole names, of which none is a part of a longer name; longer ones come first."""
    texts = "|".join(re.escape(text) for text in sorted(tables, key=len, reverse=True))
    return rf"(?<![\w`\".])(?:{texts})(?![\w`\"])"


def _quote_table(table: TableName) -> str:
    return ".".join(map(quote_field, table.parts))
