"""Statements that the DataFrame API can't say, put together from parts that quote themselves.

A template is a constant of the code. Whatever is filled in is one of the kinds below, so that no name and no value
can end up as SQL.
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
    """A name of one or more levels, each quoted; raises ConfigError for one that Spark would change."""
    for part in parts:
        if "${" in part:
            raise ConfigError(
                f"{part!r} is not a valid name: Spark substitutes `${{…}}` even inside quotes.",
                fix="choose a name without `${`",
            )
    return Sql(".".join(map(quote_field, parts)))


def type_name(kind: str) -> Sql:
    """A type, every name of a field in it quoted; raises ValueError for a text that is none."""
    return Sql(type_text(read_type(kind), quote_name))


def quote_number(value: int) -> Sql:
    return Sql(int(value))


def quote_text(value: str) -> Sql:
    """A string literal; whatever the value holds, it ends at its own quote."""
    return Sql("'" + "".join(_ESCAPES.get(character, character) for character in value) + "'")


# Spark replaces `${…}` also inside literals, but not where the sign is written by its number.
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
    """An expression built by sqlglot, which quotes its names; texts of others don't belong in it as literals."""
    return Sql(write_sql(tree))


def trust_query(sql: str) -> Sql:
    """The query of a model or of a view, or a check of a contract, which is SQL as it stands."""
    return Sql(sql)


def write_properties(values: Iterable[tuple[str, str]]) -> Sql:
    """`'key' = 'value'` pairs, comma-separated."""
    return Sql(", ".join(f"{quote_text(key)} = {quote_text(value)}" for key, value in values))


def alias_as(value: Sql, alias: str) -> Sql:
    """A value as a column of that name."""
    return fill_statement("{value} AS {alias}", value=value, alias=quote_name(alias))


def join_parts(parts: Iterable[Sql], by: LiteralString = ", ") -> Sql:
    return Sql(by.join(parts))


def fill_statement(template: LiteralString, **parts: Sql) -> Sql:
    """Fills a constant template; raises TypeError for a part that did not quote itself."""
    for key, part in parts.items():
        if not isinstance(part, Sql):
            raise TypeError(f"{key} is {type(part).__name__}, and only parts of a statement can be filled in")
    return Sql(template.format(**parts))


def select_from(source: Sql, columns: Iterable[Sql], where: Sql | None = None, by: Sequence[Sql] = ()) -> Sql:
    """A query in parentheses over a relation: a name, or another such query. It has a row for each value of `by`."""
    query = fill_statement("SELECT {columns} FROM {source}", columns=join_parts(columns), source=source)
    query = query if where is None else fill_statement("{query} WHERE {where}", query=query, where=where)
    query = fill_statement("{query} GROUP BY {by}", query=query, by=join_parts(by)) if by else query
    return fill_statement("({query})", query=query)


def replace_columns(source: Sql, values: Mapping[str, Sql], drop: Iterable[str] = ()) -> Sql:
    """A query over a relation with other values in some of its columns, all computed from its rows as they are."""
    changed = join_parts(quote_name(column) for column in (*values, *drop))
    if not changed:
        return source
    rest = fill_statement("* EXCEPT ({changed})", changed=changed)
    return select_from(source, [rest, *(alias_as(value, column) for column, value in values.items())])
