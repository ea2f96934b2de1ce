"""Parses the text of a statement: one query that only reads, the tables that it names, its order and its limit.

The order of the outermost query is taken off, since the tree of operators has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import TokenType

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.clauses.limits import OrderedQuery, split_order
from arctic_runtime.ivm.frontend.functions import QueryParser
from arctic_runtime.model.names import TableName
from arctic_runtime.sql.spark_sql import ArcticSpark, Generator, tokenize_sql, write_sql

_OPTIONS = "OPTIONS"
_WRITING = (exp.QueryTransform, exp.Into, exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Command)
_FOREIGN_CODE = frozenset({"REFLECT", "TRY_REFLECT", "JAVA_METHOD"})
_WINDOW_OPTIONS = ("start-snapshot-id", "end-snapshot-id")
_CHANGES_SYNTAX = "from m__changes with (`start-snapshot-id` = '1', `end-snapshot-id` = '2')"


@dataclass(frozen=True)
class TableReference:
    """A table as a query names it: one to three words, and the version of its rows.

    `version` is a snapshot id, or the name of a tag or branch; `timestamp` is a text. `start` and `end` are the
    snapshots of a window, whose appended rows are read: after `start`, up to `end`.
    """

    parts: tuple[str, ...]
    version: int | str | None = None
    timestamp: str | None = None
    start: int | None = None
    end: int | None = None

    @property
    def is_newest(self) -> bool:
        """Whether the query names neither a version nor a window."""
        return self.version is None and self.timestamp is None and self.start is None and self.end is None

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Statement:
    """A query without the order and the limit of its outermost level, and these."""

    ordered: OrderedQuery

    def write_query(self) -> str:
        return write_sql(self.ordered.query)


class _Parser(QueryParser):
    """Parser that also takes the options of a table: `m__changes with (`start-snapshot-id` = '1')`."""

    def _parse_version(self) -> exp.Version | None:
        version = super()._parse_version()
        if version is not None or not self._match_pair(TokenType.WITH, TokenType.L_PAREN):
            return version
        options = self._parse_csv(self._parse_option)
        self._match_r_paren()
        return exp.Version(this=_OPTIONS, kind="WITH", expression=exp.Tuple(expressions=options))

    def _parse_option(self) -> exp.Expr:
        name = self._parse_string() or self._parse_id_var()
        self._match(TokenType.EQ)
        return exp.EQ(this=name, expression=self._parse_primary())


class _Generator(Generator):
    """Generator that writes the options of a table as well."""

    def version_sql(self, expression: exp.Version) -> str:
        if expression.name != _OPTIONS:
            return super().version_sql(expression)
        return f"WITH ({self.expressions(expression.expression, flat=True)})"


class _Dialect(ArcticSpark):
    """The dialect of models' queries, with the options of tables."""

    Parser = _Parser
    Generator = _Generator


def parse_statement(text: str) -> Statement:
    """Parses a text; raises ConfigError if it is anything else than one query that reads named tables."""
    return Statement(split_order(_name_expressions(_parse_query(text))))


def write_spark_query(text: str, complete_name: Callable[[TableReference], TableName]) -> str:
    """Returns the query of a text with full names of tables, as it was parsed; raises ConfigError as `parse_statement`.

    Functions that run code of Java or of other programs are refused too.
    """
    query = _parse_query(text)
    for call in query.find_all(exp.Anonymous):
        if call.name.upper() in _FOREIGN_CODE:
            raise ConfigError("Only functions of SQL can be called.", actual=call.name.lower())
    for table in list_tables(query):
        for arg, part in zip(("catalog", "db", "this"), complete_name(read_reference(table)).parts, strict=True):
            table.set(arg, exp.to_identifier(part, quoted=True))
    return _Generator(dialect=_Dialect(), comments=False, unsupported_level=ErrorLevel.RAISE).generate(query)


def replace_tables(query: exp.Query, resolve: Callable[[TableReference], TableName]) -> None:
    """Replaces the tables that a query names by full names; a version becomes a name of its own."""
    for table in list_tables(query):
        reference = read_reference(table)
        name = resolve(reference)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(reference.parts[-1], quoted=True)))
        if name.name == reference.parts[-1]:
            table.set("alias", table.args["alias"] if table.alias != name.name else None)
        table.set("version", None)
        for arg, part in zip(("catalog", "db", "this"), name.parts, strict=True):
            table.set(arg, exp.to_identifier(part, quoted=True))


def list_tables(query: exp.Query) -> list[exp.Table]:
    """Lists the tables that a query names in any place, without its CTEs."""
    named = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    return [table for table in query.find_all(exp.Table) if table.db or table.name.lower() not in named]


def build_syntax_error(error: SqlglotError) -> ConfigError:
    """Builds the error for a text that is no SQL, such as one in which a quote is not closed."""
    return ConfigError(
        "The query can't be parsed.",
        actual=str(error).splitlines()[0],
        expected=f"one select in Spark's SQL; the changes between two versions are {_CHANGES_SYNTAX}",
    )


def _parse_query(text: str) -> exp.Query:
    try:
        tokens = tokenize_sql(text)
        if any(token.token_type == TokenType.PIPE_GT for token in tokens):
            raise ConfigError("Pipe syntax can't be read.", actual="|>", expected="one select")
        statements = [part for part in _Parser(dialect=_Dialect()).parse(tokens, text) if part is not None]
    except SqlglotError as error:
        raise build_syntax_error(error) from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        found = ", ".join(part.key.upper() for part in statements) or "nothing"
        raise ConfigError("Only a query can be run.", expected="one select", actual=found)
    query = statements[0]
    for node in query.walk():
        node.pop_comments()
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            raise ConfigError(
                "A table function can't be read.",
                actual=node.this.sql(dialect="spark")[:80],
                expected="tables and views of the catalog",
            )
        if isinstance(node, _WRITING) or (isinstance(node, exp.Select) and not node.expressions):
            raise ConfigError("Only a query can be run.", expected="one select", actual=node.key.upper())
    return query


def _name_expressions(query: exp.Query) -> exp.Query:
    """Names the computed columns of the outermost query by their texts, as far as they have no names."""
    first = query
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    if isinstance(first, exp.Select):
        first.set("expressions", [_name_expression(part) for part in first.expressions])
    return query


def _name_expression(part: exp.Expr) -> exp.Expr:
    bare = part.unnest()
    is_named = isinstance(bare, exp.Alias | exp.Aliases | exp.Star | exp.Column) or (
        isinstance(bare, exp.Dot) and isinstance(bare.expression, exp.Identifier)
    )
    return part if is_named else exp.alias_(part, _write_name(part), quoted=True)


def _write_name(part: exp.Expr) -> str:
    generator = Generator(dialect=ArcticSpark(), comments=False, normalize_functions="lower")
    return generator.generate(part)


def read_reference(table: exp.Table) -> TableReference:
    """Reads the words and the version of a table in a query; raises ConfigError for what can't be a version."""
    parts = tuple(part.name for part in table.parts)
    if len(parts) > 3:
        raise ConfigError(f"{'.'.join(parts)} is no table.", expected="table, schema.table or catalog.schema.table")
    version = table.args.get("version")
    return TableReference(parts, **({} if version is None else dict(_read_version(version, ".".join(parts)))))


def _read_version(version: exp.Version, table: str) -> Iterator[tuple[str, Any]]:
    value = version.expression
    if version.name == _OPTIONS:
        yield from _read_options(value.expressions, table).items()
    elif version.args.get("kind") != "AS OF" or not isinstance(value, exp.Literal):
        raise ConfigError(f"{table}: the version can't be read.", expected="VERSION AS OF 1, or TIMESTAMP AS OF '…'")
    elif version.name == "TIMESTAMP":
        yield "timestamp", value.name
    else:
        yield "version", value.name if value.is_string else int(value.name)


def _read_options(options: list[exp.Expr], table: str) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for option in options:
        name, value = option.this.name, option.expression
        if name not in _WINDOW_OPTIONS or not isinstance(value, exp.Literal) or not value.name.isdecimal():
            raise ConfigError(f"{table}: an option can't be read.", actual=name, expected=_CHANGES_SYNTAX)
        found[name.partition("-")[0]] = int(value.name)
    if "start" not in found:
        raise ConfigError(f"{table}: a window needs its start.", expected=_CHANGES_SYNTAX)
    return found


def list_references(text: str) -> list[TableReference]:
    """Lists the tables that the query of a text names."""
    return [read_reference(table) for table in list_tables(_parse_query(text))]


def parse_view(sql: str, resolve: Callable[[TableReference], TableName]) -> str:
    """Returns the query of a view with full names of its tables, which `resolve` finds."""
    query = _parse_query(sql)
    replace_tables(query, resolve)
    return write_sql(query)
