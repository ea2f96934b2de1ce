"""Builds SQL statements from quoted parts, for statements that the DataFrame API has no calls for.

A template is a constant in the code. Only values of type `Sql`, from the functions of this module, are filled in, so
that no name and no value from outside is interpreted as SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp
from typing_extensions import LiteralString

from arctic_runtime.errors import ConfigError
from arctic_runtime.sql.spark_sql import write_sql
from arctic_runtime.sql.types import quote_field, read_type, type_text


class Sql(str):
    """Text that is safe within a SQL statement; only the functions of this module create it."""

    __slots__ = ()


def quote_name(*parts: str) -> Sql:
    """Quotes a name, given as its levels, such as catalog, schema and table.

    Raises ConfigError for a name with `${`, which Spark would substitute.
    """
    for part in parts:
        if "${" in part:
            raise ConfigError(
                f"{part!r} is not a valid name: Spark substitutes `${{…}}` even inside quotes.",
                fix="choose a name without `${`",
            )
    return Sql(".".join(map(quote_field, parts)))


def type_name(kind: str) -> Sql:
    """Formats a SQL type with quoted field names; raises ValueError if `kind` is not a type."""
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
    """Formats a sqlglot expression with quoted names; it must not contain literals from outside."""
    return Sql(write_sql(tree))


def trust_query(sql: str) -> Sql:
    """Marks SQL text that users may write as safe: the query of a model or a view, or a check of a contract."""
    return Sql(sql)


def write_properties(values: Iterable[tuple[str, str]]) -> Sql:
    """Formats table properties as comma-separated pairs `'key' = 'value'`."""
    return Sql(", ".join(f"{quote_text(key)} = {quote_text(value)}" for key, value in values))


def alias_as(value: Sql, alias: str) -> Sql:
    """Builds `value AS alias`, with the alias quoted."""
    return fill_statement("{value} AS {alias}", value=value, alias=quote_name(alias))


def join_parts(parts: Iterable[Sql], by: LiteralString = ", ") -> Sql:
    return Sql(by.join(parts))


def fill_statement(template: LiteralString, **parts: Sql) -> Sql:
    """Fills `parts` by name into the placeholders `{name}` of a template, which must be a constant.

    Raises TypeError for a part that is not an `Sql`.
    """
    for key, part in parts.items():
        if not isinstance(part, Sql):
            raise TypeError(f"{key} is {type(part).__name__}, and only parts of a statement can be filled in")
    return Sql(template.format(**parts))


def select_from(source: Sql, columns: Iterable[Sql], where: Sql | None = None, by: Sequence[Sql] = ()) -> Sql:
    """Builds a SELECT of `columns`, in parentheses, from `source`, the name of a relation or another such SELECT.

    `where` is the condition of WHERE; None selects all rows. `by` are the columns of GROUP BY; without any, the clause
    is left out.
    """
    query = fill_statement("SELECT {columns} FROM {source}", columns=join_parts(columns), source=source)
    query = query if where is None else fill_statement("{query} WHERE {where}", query=query, where=where)
    query = fill_statement("{query} GROUP BY {by}", query=query, by=join_parts(by)) if by else query
    return fill_statement("({query})", query=query)


def replace_columns(source: Sql, values: Mapping[str, Sql], drop: Iterable[str] = ()) -> Sql:
    """Builds a query over `source` that replaces or adds the columns `values`, and drops the columns `drop`.

    All values are computed from the original columns. Without changes, returns `source`.
    """
    changed = join_parts(quote_name(column) for column in (*values, *drop))
    if not changed:
        return source
    rest = fill_statement("* EXCEPT ({changed})", changed=changed)
    return select_from(source, [rest, *(alias_as(value, column) for column, value in values.items())])
