"""SQL statements for which the DataFrame API has no calls, built from quoted parts.

A template is a constant of the code. Only values of type `Sql` are filled in, as made by the functions below, so that
no name and no value is interpreted as SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp
from typing_extensions import LiteralString

from arctic_runtime.errors import ConfigError
from arctic_runtime.sql.spark_sql import write_sql
from arctic_runtime.sql.types import quote_field, read_type, type_text


class Sql(str):
    """Text that is safe inside a statement; made by the functions of this module only."""

    __slots__ = ()


def quote_name(*parts: str) -> Sql:
    """Quotes a name of one or more levels; raises ConfigError for a name with `${`, which Spark would substitute."""
    for part in parts:
        if "${" in part:
            raise ConfigError(
                f"{part!r} is not a valid name: Spark substitutes `${{…}}` even inside quotes.",
                fix="choose a name without `${`",
            )
    return Sql(".".join(map(quote_field, parts)))


def type_name(kind: str) -> Sql:
    """Formats a type for a statement, with quoted field names; raises ValueError if `kind` is not a type."""
    return Sql(type_text(read_type(kind), quote_name))


def quote_number(value: int) -> Sql:
    return Sql(int(value))


def quote_text(value: str) -> Sql:
    """Quotes a text as a string literal, with all special characters escaped."""
    return Sql("'" + "".join(_ESCAPES.get(character, character) for character in value) + "'")


# Spark replaces `${…}` also inside literals, but not if the dollar sign is written as an escape sequence.
_ESCAPES = {
    "$": "\\u0024",
    "\\": "\\\\",
    "'": "\\'",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\x00": "\\000",
    "\x1a": "\\Z",
}


def write_expression(tree: exp.Expr) -> Sql:
    """Formats an expression that was built by sqlglot, with quoted names; it must have no literals from outside."""
    return Sql(write_sql(tree))


def trust_query(sql: str) -> Sql:
    """Marks SQL of the user as safe: the query of a model or of a view, or a check of a contract."""
    return Sql(sql)


def write_properties(values: Iterable[tuple[str, str]]) -> Sql:
    """Formats properties as comma-separated pairs `'key' = 'value'`."""
    return Sql(", ".join(f"{quote_text(key)} = {quote_text(value)}" for key, value in values))


def alias_as(value: Sql, alias: str) -> Sql:
    """Builds `value AS alias`."""
    return fill_statement("{value} AS {alias}", value=value, alias=quote_name(alias))


def join_parts(parts: Iterable[Sql], by: LiteralString = ", ") -> Sql:
    return Sql(by.join(parts))


def fill_statement(template: LiteralString, **parts: Sql) -> Sql:
    """Fills a constant template with parts by name; raises TypeError for a part that is not an `Sql`."""
    for key, part in parts.items():
        if not isinstance(part, Sql):
            raise TypeError(f"{key} is {type(part).__name__}, and only parts of a statement can be filled in")
    return Sql(template.format(**parts))


def select_from(source: Sql, columns: Iterable[Sql], where: Sql | None = None, by: Sequence[Sql] = ()) -> Sql:
    """Builds a SELECT in parentheses from `source`, a relation's name or another such query.

    It has the condition `where` if given, and is grouped by the columns `by` if there are any.
    """
    query = fill_statement("SELECT {columns} FROM {source}", columns=join_parts(columns), source=source)
    query = query if where is None else fill_statement("{query} WHERE {where}", query=query, where=where)
    query = fill_statement("{query} GROUP BY {by}", query=query, by=join_parts(by)) if by else query
    return fill_statement("({query})", query=query)


def replace_columns(source: Sql, values: Mapping[str, Sql], drop: Iterable[str] = ()) -> Sql:
    """Builds a query that replaces or adds columns of a relation by `values`, and drops the columns `drop`.

    All values are computed from the relation's original columns.
    """
    changed = join_parts(quote_name(column) for column in (*values, *drop))
    if not changed:
        return source
    rest = fill_statement("* EXCEPT ({changed})", changed=changed)
    return select_from(source, [rest, *(alias_as(value, column) for column, value in values.items())])
