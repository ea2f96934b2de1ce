"""Finds the names of tables in the text of a query in Spark's SQL, and replaces them there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from arctic_runtime.errors import ConfigError
from arctic_runtime.sql.spark_sql import ArcticSpark

Locate = Callable[[int], str]
"""Returns the place of a line of a query, counted from 1, as errors name it."""

_CALL_BEGINS = re.compile(r"\bchanges\s*\(\s*\Z", re.IGNORECASE)
_CALL_ENDS = re.compile(r"\s*\)")


@dataclass(frozen=True)
class NamedTable:
    """A name `schema.table` in a query, or a call `changes(schema.table)`, with its place in the text."""

    schema: str
    name: str
    start: int
    end: int
    """Position behind the last character."""

    line: int
    reads_changes: bool = False


def list_named_tables(sql: str, locate: Locate) -> list[NamedTable]:
    """Lists the names of tables with a schema in a query, in the order of the text.

    Names with a catalog, and paths of files, are left out. Raises ConfigError with its line for a text that is no
    single query, and for a table without its schema.
    """
    query = _parse_query(sql, locate)
    ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    tables = (table for table in query.find_all(exp.Table) if table.find_ancestor(exp.Hint) is None)
    named = (found for table in tables for found in _read_names(table, sql, ctes, locate))
    return sorted(named, key=lambda found: found.start)


def replace_names(sql: str, names: Iterable[tuple[NamedTable, str]]) -> str:
    """Replaces names in a query, which come in the order of the text, each by its text."""
    parts, position = list[str](), 0
    for named, text in names:
        parts += [sql[position : named.start], text]
        position = named.end
    return "".join([*parts, sql[position:]])


def _parse_query(sql: str, locate: Locate) -> exp.Query:
    expected = "one query in Spark's SQL"
    try:
        statements = [statement for statement in ArcticSpark().parse(sql) if statement is not None]
    except SqlglotError as error:
        faults = error.errors if isinstance(error, ParseError) else []
        fault = faults[0] if faults else {}
        reason = str(fault.get("description") or error)
        raise ConfigError(
            "The query can't be parsed.", where=locate(fault.get("line") or 1), expected=expected, actual=reason
        ) from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        kinds = ", ".join(statement.key for statement in statements) or "nothing"
        raise ConfigError("The file has no single query.", where=locate(1), expected=expected, actual=kinds)
    return statements[0]


def _read_names(table: exp.Table, sql: str, ctes: set[str], locate: Locate) -> Iterator[NamedTable]:
    """Yields the name in a node of a query, if it is that of a table of the project's catalog."""
    if isinstance(table.this, exp.Anonymous) and table.this.name.lower() == "changes":
        yield _read_call(table.this, sql, locate)
    elif isinstance(table.this, exp.Identifier) and not table.catalog and "/" not in table.name:
        if table.db:
            parts = [table.args["db"], table.this]
            yield NamedTable(table.db, table.name, _get_start(parts[0]), _get_end(parts[1]), _get_line(parts[0]))
        elif table.name.lower() not in ctes:
            raise ConfigError(
                f"The table `{table.name}` has no schema.",
                where=locate(_get_line(table.this)),
                expected="schema.table, or the name of a CTE",
                fix=f"write the schema before it, as in dwd.{table.name}",
            )


def _read_call(call: exp.Anonymous, sql: str, locate: Locate) -> NamedTable:
    parts = [part for argument in call.expressions for part in argument.find_all(exp.Identifier)]
    parts.sort(key=_get_start)
    if len(parts) == 2:
        begin = _CALL_BEGINS.search(sql, 0, _get_start(parts[0]))
        end = _CALL_ENDS.match(sql, _get_end(parts[1]))
        if begin is not None and end is not None:
            schema, name = (part.name for part in parts)
            return NamedTable(schema, name, begin.start(), end.end(), _get_line(parts[0]), reads_changes=True)
    line = _get_line(parts[0]) if parts else 1
    raise ConfigError("The call of `changes` can't be read.", where=locate(line), expected="changes(schema.table)")


def _get_start(part: exp.Expression) -> int:
    return int(part.meta["start"])


def _get_end(part: exp.Expression) -> int:
    return int(part.meta["end"]) + 1


def _get_line(part: exp.Expression) -> int:
    return int(part.meta["line"])
