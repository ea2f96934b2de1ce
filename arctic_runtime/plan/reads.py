"""What a query reads, and whether its answer depends on more than that."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokens import Token, TokenType

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import POSITION
from arctic_runtime.model.names import TableName

UNSTABLE = frozenset(
    {
        "CURDATE",
        "CURRENT_DATE",
        "CURRENT_TIMESTAMP",
        "CURRENT_TIME",
        "CURRENT_TIMEZONE",
        "CURRENT_USER",
        "CURRENT_CATALOG",
        "CURRENT_DATABASE",
        "CURRENT_SCHEMA",
        "INPUT_FILE_NAME",
        "INPUT_FILE_BLOCK_START",
        "INPUT_FILE_BLOCK_LENGTH",
        "JAVA_METHOD",
        "LOCALTIMESTAMP",
        "MONOTONICALLY_INCREASING_ID",
        "NOW",
        "RAND",
        "RANDN",
        "RANDOM",
        "RANDSTR",
        "REFLECT",
        "SESSION_USER",
        "SHUFFLE",
        "SPARK_PARTITION_ID",
        "TABLESAMPLE",
        "TRY_REFLECT",
        "UNIFORM",
        "USER",
        "UUID",
    }
)
"""What may answer differently although its arguments are the same: it depends on the moment, the session, or chance."""

_GENERATORS = frozenset(
    {
        "EXPLODE",
        "EXPLODE_OUTER",
        "INLINE",
        "INLINE_OUTER",
        "POSEXPLODE",
        "POSEXPLODE_OUTER",
        "RANGE",
        "STACK",
        "VARIANT_EXPLODE",
        "VARIANT_EXPLODE_OUTER",
    }
)
"""Functions that make any number of rows of one, and read no table."""

_WRITTEN = "written"


@dataclass(frozen=True)
class Reads:
    """The tables that a query names, and why its answer may change although they do not.

    `unstable` are names of functions in upper case. `parsed` is False where the query could not be read:
    then nothing is known of it and it has to run every time.
    """

    tables: tuple[TableName, ...] = ()
    unstable: tuple[str, ...] = ()
    parsed: bool = True


@lru_cache(maxsize=64)
def reads(sql: str, catalog: str, schema: str) -> Reads:
    """Finds the tables of a Spark query. Names with fewer levels are completed by `catalog` and `schema`."""
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
        if tree.find(exp.Command) is not None or not isinstance(tree, exp.Query):
            return Reads(parsed=False)
        tables = [_complete(table, catalog, schema) for table in _physical_tables(tree)]
    except (SqlglotError, ConfigError):
        return Reads(parsed=False)
    if any(table is None for table in tables):
        return Reads(parsed=False)
    named = tuple(dict.fromkeys(table for table in tables if table is not None))
    return Reads(named, tuple(sorted(_unstable_functions(tree))))


def with_position(sql: str) -> str | None:
    """The same text with the source's position selected too; None where that could change its meaning.

    Only a select over `changes(…)`, perhaps joined, without grouping, distinct, set operation or limit keeps each
    event one row, so only there the position of the source's row is the position of the event.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
        tokens = sqlglot.tokenize(sql, read="spark")
    except SqlglotError:
        return None
    source = _event_source(tree)
    at = _top_level_from(tokens)
    if source is None or at is None:
        return None
    column = exp.column(POSITION, table=source, quoted=True)
    placed = f"{sql[:at]}, {column.sql(dialect='spark')} {sql[at:]}"
    return placed if _is_one_more(placed, tree, column) else None


def _is_one_more(sql: str, tree: exp.Expr, column: exp.Expr) -> bool:
    """Whether a text is read as a select with one more column and nothing else."""
    try:
        return isinstance(tree, exp.Select) and sqlglot.parse_one(sql, dialect="spark") == tree.select(column)
    except SqlglotError:
        return False


_NOT_PLAIN = ("with_", "group", "distinct", "limit", "offset", "having", "qualify", "laterals", "pivots")


def _event_source(tree: exp.Expr) -> str | None:
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in _NOT_PLAIN):
        return None
    if tree.find(exp.AggFunc, exp.Lateral) or any(projection.is_star for projection in tree.expressions):
        return None
    if any(_GENERATORS.intersection(function_names(function)) for function in tree.find_all(exp.Func)):
        return None
    source = tree.args.get("from_")
    table = source.this if source else None
    is_changes = isinstance(table, exp.Table) and table.name.startswith("changes(")
    if table is None or table.args.get("pivots"):
        return None
    return table.alias_or_name if is_changes else None


def _top_level_from(tokens: list[Token]) -> int | None:
    """Where the `from` of a query stands that begins with `select`; that of `is distinct from` is another."""
    depth = 0
    kinds = [token.token_type for token in tokens]
    if not kinds or kinds[0] != TokenType.SELECT:
        return None
    for before, token in zip(kinds, tokens[1:], strict=False):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.FROM and depth == 0 and before != TokenType.DISTINCT:
            return int(token.start)
    return None


def _physical_tables(tree: exp.Query) -> list[exp.Table]:
    ctes = _fold_cte_names(tree)
    found: dict[int, exp.Table] = {}
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                found[id(source)] = source
    reachable = list(found.values())
    names = {_key(table) for table in reachable}
    for table in tree.find_all(exp.Table):
        if _key(table) not in names and not (table.name in ctes and not table.db):
            reachable.append(table)
    return [table for table in reachable if not _is_no_table(table)]


def _fold_cte_names(tree: exp.Query) -> set[str]:
    """Writes what may name a CTE in lower case, since Spark does not look at case; returns the CTEs' names."""
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for cte in tree.find_all(exp.CTE):
        cte.args["alias"].this.set("this", cte.alias.lower())
    for table in tree.find_all(exp.Table):
        if not table.db and table.name.lower() in ctes:
            table.meta[_WRITTEN] = table.name
            table.this.set("this", table.name.lower())
    return ctes


def _is_no_table(table: exp.Table) -> bool:
    """Names in hints, and functions that make rows of their arguments alone."""
    function = table.this
    is_generator = isinstance(function, exp.Func) and _GENERATORS.intersection(function_names(function))
    return bool(is_generator) or table.find_ancestor(exp.Hint) is not None


def _key(table: exp.Table) -> tuple[str, str, str]:
    return (table.catalog, table.db, table.name)


def _complete(table: exp.Table, catalog: str, schema: str) -> TableName | None:
    if not isinstance(table.this, exp.Identifier):
        return None
    name = table.meta.get(_WRITTEN, table.name)
    if name.startswith("changes(") and not table.db:
        return None if name.count(".") != 2 else TableName(catalog, schema, name)
    return TableName(table.catalog or catalog, table.db or schema, name)


def _unstable_functions(tree: exp.Expr) -> set[str]:
    names = {name for function in tree.find_all(exp.Func) for name in function_names(function)}
    if tree.find(exp.TableSample):
        names.add("TABLESAMPLE")
    return names & UNSTABLE


def function_names(function: exp.Func) -> list[str]:
    """The names that a call may go by, in upper case."""
    if isinstance(function, exp.Anonymous):
        return [function.name.upper()]
    return [name.upper() for name in type(function).sql_names()]
