"""Parses a query, and raises NotMaintained for functions, clauses and syntax in it that can't be maintained.

Volatile functions, whose result depends on more than their arguments, are refused. So are functions that are not built
into Spark, because nothing is known about functions that users define.

Functions whose result depends on the order of rows that compare equal are allowed: `first`, `collect_list`, and
`row_number` or `lag` over an order with ties. Maintenance computes whole groups and partitions, so that its result is
one of those that a full run could return, though perhaps another one than a full run would return.

Spark's comparison of a query with what is written back of it proves how a text is parsed, and not how a parsed node is
analysed: a node that the analysis does not know would be written back as it is, and be taken for a value of one row. So
all other syntax is refused, such as `TRANSFORM (…) USING 'script'`, which returns any rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from arctic_runtime.ivm.algebra.aggregate_functions import AGGREGATE_FUNCTIONS, find_aggregate_function
from arctic_runtime.ivm.algebra.clock import NOW
from arctic_runtime.ivm.algebra.expressions import unwrap_parens, walk_parts
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.reads import (
    AGGREGATES,
    GENERATORS,
    SCALARS,
    UNSTABLE,
    WINDOW_FUNCTIONS,
    get_clock_word,
    list_function_names,
)
from arctic_runtime.model.step import Reason
from arctic_runtime.sql.spark_sql import ArcticSpark, Parser, tokenize_sql

_OPERATORS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe, exp.Paren),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.All, exp.Any, exp.Exists),
    *(exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Collate, exp.Bracket, exp.Dot, exp.Tuple),
)

_VALUES = (exp.Column, exp.Identifier, exp.Literal, exp.HexString, exp.Boolean, exp.Null, exp.Interval, exp.Star)

_CALLS = (exp.Extract, exp.Overlay, exp.StrPosition, exp.Substring, exp.Transform, exp.Trim)
"""Calls with a syntax of their own, and `transform` with a lambda."""

_PARTS_OF_CALLS = (
    *(exp.Alias, exp.DataType, exp.Distinct, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.Kwarg, exp.Lambda),
    *(exp.Order, exp.Ordered, exp.Var, exp.Where, exp.Window, exp.WindowSpec, exp.WithinGroup),
)

KNOWN_SYNTAX: Final = frozenset({*_OPERATORS, *_VALUES, *_CALLS, *_PARTS_OF_CALLS})
"""Classes of nodes in expressions that the analysis knows, besides calls of functions by their names."""


_CLOCK_WITHOUT_ARGUMENTS = frozenset({"UNIX_TIMESTAMP"})

_KNOWN = {NOW} | AGGREGATES | GENERATORS | SCALARS | WINDOW_FUNCTIONS

_TAKES_UNIT = frozenset({"DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMEDIFF", "TIMESTAMPADD", "TIMESTAMPDIFF"})

_NOT_SUPPORTED = frozenset({"ARRAYS_ZIP", "GROUPING", "GROUPING_ID", "SESSION_WINDOW", "WINDOW", "WINDOW_TIME"})

_PARSED_AGGREGATES = frozenset(function.name for function in AGGREGATE_FUNCTIONS if function.expression is not None)

_PARSED_CLASSES = KNOWN_SYNTAX | {function.expression for function in AGGREGATE_FUNCTIONS}

_TAKES_LIST = (
    exp.In,
    exp.Values,
    exp.Group,
    exp.GroupingSets,
    exp.Cube,
    exp.Rollup,
    exp.Pivot,
    exp.PivotAlias,
    exp.Tuple,
)
"""Classes of nodes in which a list in parentheses is no struct; in a struct, a list is one."""

_SHOWN = 60
"""Length of a part of a query in a reason, in characters."""

_DECLARED = "declared"
"""Argument of a call in the tree that marks a function which users declare as deterministic."""

_OWN_SYNTAX = frozenset(
    {
        "BROADCAST",
        "BROADCASTJOIN",
        "CAST",
        "EXTRACT",
        "MAPJOIN",
        "MERGE",
        "MERGEJOIN",
        "OVERLAY",
        "POSITION",
        "SHUFFLEMERGE",
        "SHUFFLE_HASH",
        "SHUFFLE_REPLICATE_NL",
        "SUBSTR",
        "SUBSTRING",
        "TRIM",
        "TRY_CAST",
    }
)


class QueryParser(Parser):
    """Parser that builds sqlglot's own class for as few functions as possible, and `Anonymous` for the others.

    An `Anonymous` call keeps its name and is written back unchanged. ARRAY has its class, because a subscript after an
    `Anonymous` call would be parsed as one of its arguments.
    """

    FUNCTIONS: ClassVar = {
        name: build
        for name, build in Parser.FUNCTIONS.items()
        if name in _PARSED_AGGREGATES | GENERATORS | WINDOW_FUNCTIONS | {"ARRAY", "COALESCE"}
    }
    FUNCTION_PARSERS: ClassVar = {name: parse for name, parse in Parser.FUNCTION_PARSERS.items() if name in _OWN_SYNTAX}


def parse_query(sql: str, declared: frozenset[str] = frozenset()) -> exp.Query:
    """Parses the text of one query; raises NotMaintained if it can't be parsed or is anything else than one query.

    `declared` are names, in lower case, of functions that users define and declare as deterministic.
    """
    try:
        statements_read = read_sql(sql)
    except SqlglotError as error:
        raise NotMaintained("UNPARSED", f"the parser rejects the SQL: {str(error).splitlines()[0]}") from error
    statements = [statement for statement in statements_read if statement is not None]
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise NotMaintained("UNPARSED", "the SQL is not one query")
    query = statements[0]
    for node in walk_parts(query):
        _name_fields(node)
        _check_variables(node)
        _check_read(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() in declared:
            node.set(_DECLARED, True)
    return query


def read_sql(sql: str) -> list[exp.Expr | None]:
    """Parses the statements or expressions of a text, separated by semicolons.

    Raises SqlglotError if the text can't be parsed, and NotMaintained for pipe syntax (`|>`).
    """
    sql_tokens = tokenize_sql(sql)
    if any(token.token_type == TokenType.PIPE_GT for token in sql_tokens):
        raise NotMaintained("UNSUPPORTED", "pipe syntax (`|>`)")
    statements = QueryParser(dialect=ArcticSpark()).parse(sql_tokens, sql)
    for node in (part for statement in statements if statement is not None for part in walk_parts(statement)):
        node.pop_comments()
        _convert_unit_to_keyword(node)
    return statements


def _check_read(node: exp.Expr) -> None:
    """Raises NotMaintained for WITH RECURSIVE, for parameters, and for syntax that sqlglot parses wrongly.

    Sqlglot parses the type TIME as a timestamp, and a path into a variant (`v:price`) as a parameter.
    """
    if isinstance(node, exp.DataType) and node.is_type(exp.DType.TIME, exp.DType.TIMETZ):
        raise NotMaintained("UNSUPPORTED", "the type TIME")
    if isinstance(node, exp.With) and node.args.get("recursive"):
        raise NotMaintained("UNSUPPORTED", "WITH RECURSIVE")
    if isinstance(node, exp.Placeholder):
        raise NotMaintained("UNSUPPORTED", "a parameter, or a path into a variant (`v:price`)")


def check_functions(expression: exp.Expr) -> None:
    """Raises NotMaintained if `expression` calls a function that is volatile, unknown or not supported.

    Also raises for syntax that the analysis does not know, for parameters, for `*` outside of `count(*)`, and for texts
    such as `'today'` that Spark converts to another date in every run.
    """
    for node in walk_parts(expression, whole=exp.DataType):
        word = get_clock_word(node)
        if word is not None:
            raise NotMaintained("NON_DETERMINISTIC", f"'{word.lower()}' may have another value in every run")
        if isinstance(node, exp.Func):
            _check_function(node)
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            raise NotMaintained(
                "UNKNOWN_FUNCTION",
                f"{node.expression.name} is not a built-in function of Spark",
            )
        elif isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
            raise NotMaintained("UNSUPPORTED", "a parameter or a session variable")
        elif isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise NotMaintained("UNSUPPORTED", "* inside an expression, other than in count(*)")
        elif isinstance(node, exp.Any) and isinstance(node.this, exp.Paren):
            raise NotMaintained("UNSUPPORTED", "any(…) as an aggregate; write bool_or(…) instead")
        elif type(node) not in KNOWN_SYNTAX:
            raise NotMaintained("UNSUPPORTED", f"the syntax `{_format_syntax(node)}`")


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate call, or a `filter`, `within group` or `ignore nulls` clause around one."""
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return is_aggregate(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in AGGREGATES
    return isinstance(node, exp.AggFunc)


def is_generator(node: exp.Expr) -> bool:
    """Whether a node is a call of a generator, a function such as explode that returns any number of rows."""
    return isinstance(node, exp.Func) and not GENERATORS.isdisjoint(list_function_names(node))


def get_value_over_no_rows(call: exp.Expr) -> exp.Expr | None:
    """Returns the value of an aggregate call over no rows as an expression, 0 or NULL; None if it is not known."""
    while isinstance(call, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    function = find_aggregate_function(call)
    match function.over_no_rows if function is not None else "unknown":
        case "zero":
            return exp.Literal.number(0)
        case "null":
            return exp.Null()
        case "unknown":
            return None


def _check_function(function: exp.Func) -> None:
    if function.args.get(_DECLARED):
        return
    names = set(list_function_names(function))
    if names & UNSTABLE or (names & _CLOCK_WITHOUT_ARGUMENTS and not function.expressions):
        raise NotMaintained(
            "NON_DETERMINISTIC",
            f"{_format_function_name(function)} depends on more than its arguments: on the time, the session or a "
            "random number",
        )
    if names & _NOT_SUPPORTED:
        raise NotMaintained("UNSUPPORTED", f"{_format_function_name(function)} is not supported")
    if not _is_known(function):
        raise NotMaintained(
            "UNKNOWN_FUNCTION",
            f"{_format_function_name(function)} is not a built-in function of Spark",
        )


def _is_known(function: exp.Func) -> bool:
    """Whether a function has a name that Spark has built in, or a class that only the parser of such a name makes."""
    if isinstance(function, exp.Anonymous):
        return function.name.upper() in _KNOWN
    return type(function) in _PARSED_CLASSES or not _KNOWN.isdisjoint(list_function_names(function))


def _check_variables(function: exp.Expr) -> None:
    """Raises NotMaintained if a lambda uses its variable in another case than it declares it, as in `x -> X + 1`.

    Spark ignores case and reads the variable. But sqlglot parses the name in the other case as a column, so that the
    query would be maintained as if it read a column of this name.
    """
    if not isinstance(function, exp.Lambda):
        return
    variables = {variable.name.lower() for variable in function.expressions}
    for column in function.this.find_all(exp.Column):
        if column.parts[0].name.lower() in variables:
            raise NotMaintained(
                "UNSUPPORTED",
                f"{column.name} in a lambda could be its variable or a column; write variables in one case",
            )


def _convert_unit_to_keyword(node: exp.Expr) -> None:
    """Turns the unit of a date function, such as `day` in `dateadd(day, 1, d)`, from a column into a keyword."""
    if isinstance(node, exp.Anonymous) and node.name.upper() in _TAKES_UNIT and len(node.expressions) == 3:
        unit = node.expressions[0]
        if isinstance(unit, exp.Column) and not unit.table:
            unit.replace(exp.Var(this=unit.name))


def _name_fields(node: exp.Expr) -> None:
    """Writes rows such as `(id, amount)` as calls of `struct`, and adds aliases to the columns in them.

    Without an alias, Spark names a field after its column, and the analysis renames columns (`amount#7`).
    """
    if isinstance(node, exp.Tuple) and _is_struct(node):
        call = exp.Anonymous(this="STRUCT")
        node.replace(call)
        call.set("expressions", [_name_field(part) for part in node.expressions])
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "STRUCT":
        node.set("expressions", [_name_field(part) for part in node.expressions])


def _is_struct(row: exp.Tuple) -> bool:
    """Whether a row in parentheses is a value, and not a list of columns, of compared values or of rows."""
    parent = row.parent
    while type(parent) is exp.Paren:
        parent = parent.parent
    return not isinstance(parent, _TAKES_LIST)


def _name_field(value: exp.Expr) -> exp.Expr:
    bare = unwrap_parens(value)
    last = bare.this if isinstance(bare, exp.Column) else bare.expression if isinstance(bare, exp.Dot) else None
    return exp.alias_(bare, last.name, quoted=True, copy=False) if isinstance(last, exp.Identifier) else value


def _format_syntax(node: exp.Expr) -> str:
    """Returns the beginning of the text of a node, with the names that columns have in the query."""
    return re.sub(r"`([^`]*?)(#\d+)?`", r"\1", node.sql(dialect="spark"))[:_SHOWN]


def _format_function_name(function: exp.Func) -> str:
    return (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()


_REASONS: dict[str, Reason] = {
    "limit": "LIMIT",
    "offset": "LIMIT",
    "fetch": "LIMIT",
    "sample": "NON_DETERMINISTIC",
}

_WRITTEN = {
    "sample": "TABLESAMPLE picks rows by chance",
    "version": "VERSION AS OF or TIMESTAMP AS OF on a table",
    "pivots": "PIVOT or UNPIVOT",
    "recursive": "WITH RECURSIVE",
}
"""Descriptions of parts of clauses in error messages, by the name of the argument of sqlglot's class."""


def check_clause_args(node: exp.Expr, known: Set[str]) -> None:
    """Raises NotMaintained if the syntax node of a clause has any argument besides those named in `known`.

    The check ensures that syntax which the analysis does not know is refused and not ignored.
    """
    for name, value in node.args.items():
        if value and name not in known:
            reason: Reason = _REASONS.get(name, "UNSUPPORTED")
            written = _WRITTEN.get(name, f"{node.key} with {name.rstrip('_').replace('_', ' ')}")
            raise NotMaintained(reason, written)


def check_of_one_row(expression: exp.Expr, clause: str) -> None:
    """Raises NotMaintained if an expression is computed from more than one row.

    So aggregates, window functions and generators are refused, except inside subqueries. The message names `clause`,
    the clause that contains the expression.
    """
    for node in walk_outside_queries(expression):
        if is_aggregate(node) or isinstance(node, exp.Window) or is_generator(node):
            raise NotMaintained(
                "UNSUPPORTED", f"an aggregate, a window function or a generator such as explode in {clause}"
            )


def walk_outside_queries(expression: exp.Expr) -> Iterable[exp.Expr]:
    """Yields the nodes of an expression, with its subqueries themselves but not the nodes inside them."""
    return walk_parts(expression, whole=exp.Query)
