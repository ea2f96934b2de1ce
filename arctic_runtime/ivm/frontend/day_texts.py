"""Finds texts that Spark may convert to a timestamp on the day of the run, as it does with `10:00`.

The result of a query with such a text changes from day to day, although no function in it depends on the time. A text
becomes a timestamp by an explicit cast, or implicitly: in a comparison with a timestamp, or as the argument of a
function such as `hour`. A conversion to a date, or to a timestamp without a time zone, never uses the day of the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import sqlglot
from sqlglot import exp

from arctic_runtime.ivm.frontend.reads import list_function_names

TIME_ALONE = r"(?<![A-Za-z0-9:+.\-])(?<!\d[-/.]\d{1,2} )(T\d|\d{1,2}:\d)"
"""Regular expression, in Java's syntax, for a time without a date before it, in a text or a nested value as text."""

_LITERAL = re.compile(r"\s*(T\d|\d{1,2}:\d)", re.IGNORECASE)
_MOMENTS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
_TEXT = re.compile(r"\b(string|varchar|char)\b")
_MOMENT = re.compile(r"\btimestamp\b")

_TAKE_MOMENTS = frozenset(
    {"HOUR", "MINUTE", "SECOND", "EXTRACT", "DATE_PART", "DATEPART", "DATE_TRUNC", "TIMESTAMP_TRUNC", "DATE_FORMAT"}
    | {"TIME_STR_TO_TIME", "TO_TIMESTAMP_LTZ", "FROM_UTC_TIMESTAMP", "TO_UTC_TIMESTAMP", "WINDOW", "SESSION_WINDOW"}
    | {"TIMESTAMP_DIFF", "TIMESTAMPDIFF", "TIMESTAMP_ADD", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "DATEADD"}
    | {"MONTHS_BETWEEN", "UNIX_SECONDS", "UNIX_MILLIS", "UNIX_MICROS"}
)
_CUT_OUT = frozenset(
    {"RIGHT", "SPLIT", "SPLIT_PART", "SUBSTRING_INDEX", "REGEXP_EXTRACT", "REGEXP_EXTRACT_ALL", "TIME_TO_STR"}
    | {"REGEXP_SUBSTR", "DATE_FORMAT", "FROM_UNIXTIME", "UNIX_TO_STR"}
)
_GIVE_DATES = frozenset(
    {
        "TO_DATE",
        "TS_OR_DS_TO_DATE",
        "DATE",
        "DATE_ADD",
        "TS_OR_DS_ADD",
        "DATE_SUB",
        "ADD_MONTHS",
        "LAST_DAY",
        "NEXT_DAY",
    }
    | {"MAKE_DATE", "MAKE_TIMESTAMP", "STR_TO_TIME"}
)
_CUT_FROM = frozenset({"SUBSTRING", "SUBSTR", "MID"})
_BESIDE = (
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In),
    *(exp.Coalesce, exp.Case, exp.Nullif, exp.Greatest, exp.Least, exp.If, exp.Nvl2, exp.DecodeCase, exp.Array),
)
"""Expressions for which Spark converts all arguments to a common type, so that a text may become a timestamp."""

_LIKE_THEIR_PARTS = (exp.Binary, exp.Coalesce, exp.Case, exp.AggFunc, exp.Neg)
"""Expressions that are timestamps if one of their arguments is."""


@dataclass(frozen=True)
class DayTexts:
    """Texts that Spark may convert to a timestamp on the day of the run.

    `made` are SQL expressions in the queries: literals and computed texts. `columns` are text columns of the tables
    that the queries read, named in lower case.
    """

    made: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()


@lru_cache(maxsize=64)
def find_day_texts(queries: tuple[str, ...], types: frozenset[tuple[str, str]]) -> DayTexts:
    """Finds texts in `queries` (a query and its views) that Spark may convert to a timestamp on the day of the run.

    Every query must be one that sqlglot can parse. `types` are pairs of name, in lower case, and type of all columns of
    all tables that the queries read. Columns of different tables with one name are not distinguished, so that the
    result may contain columns that are never converted.
    """
    trees = [sqlglot.parse_one(sql, dialect="spark") for sql in queries]
    finder = _Finder(_group_by_name(types), _collect_aliases(trees))
    for tree in trees:
        for node in tree.walk():
            for value in finder.list_timestamp_values(node):
                finder.find_texts(value)
    return DayTexts(tuple(sorted(finder.made)), frozenset(finder.columns))


def _group_by_name(types: Collection[tuple[str, str]]) -> dict[str, str]:
    known: dict[str, str] = {}
    for name, kind in types:
        known[name] = f"{known.get(name, '')} {kind}"
    return known


def _collect_aliases(trees: Sequence[exp.Expr]) -> dict[str, list[exp.Expr]]:
    aliases: dict[str, list[exp.Expr]] = {}
    for alias in (alias for tree in trees for alias in tree.find_all(exp.Alias)):
        aliases.setdefault(alias.alias.lower(), []).append(alias.this)
    return aliases


def is_text(kind: str) -> bool:
    """Whether the type `kind` is a text type, or contains one at any level."""
    return _TEXT.search(kind) is not None


class _Finder:
    """Collects texts that become timestamps.

    `types` maps column names to their types, and `aliases` maps aliases to the expressions that have them; all names
    are in lower case.
    """

    def __init__(self, types: Mapping[str, str], aliases: Mapping[str, Sequence[exp.Expr]]) -> None:
        self.types, self.aliases = types, aliases
        self.made: set[str] = set()
        self.columns: set[str] = set()
        self._seen: set[int] = set()

    def list_timestamp_values(self, node: exp.Expr) -> Iterator[exp.Expr]:
        """Yields the operands of `node` that are converted to timestamps if they are texts."""
        if isinstance(node, exp.Cast):
            if _is_moment(node):
                yield node.this
        elif isinstance(node, _BESIDE):
            is_moment = isinstance(node, exp.In) and node.args.get("query") is not None
            yield from self._list_compared_values(list(_list_result_values(node)), is_moment)
        elif isinstance(node, exp.SetOperation):
            for pair in zip(node.left.selects, node.right.selects, strict=False):
                yield from self._list_compared_values([part.unalias() for part in pair])
        elif isinstance(node, exp.Join):
            for name in node.args.get("using") or ():
                yield from self._list_compared_values([exp.column(name.name)])
        elif isinstance(node, exp.Func) and not _TAKE_MOMENTS.isdisjoint(list_function_names(node)):
            yield from (part for part in node.iter_expressions() if isinstance(part, exp.Column))

    def _list_compared_values(self, values: list[exp.Expr], is_moment: bool = False) -> list[exp.Expr]:
        return values if is_moment or any(map(self._may_be_moment, values)) else []

    def find_texts(self, value: exp.Expr) -> None:
        """Adds literals and computed texts in `value` to `made`, and its text columns to `columns`.

        `value` is an expression that Spark converts to a timestamp if it is a text.
        """
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        match value:
            case exp.Literal() if value.is_string:
                self.made |= {value.sql(dialect="spark").upper()} if _LITERAL.match(value.name) else set()
            case exp.Column():
                self._find_column(value)
            case exp.Cast() if not value.is_type(*exp.DataType.TEXT_TYPES):
                return
            case exp.Query():
                return
            case exp.Func() if not _GIVE_DATES.isdisjoint(list_function_names(value)):
                return
            case _ if _may_be_time_of_day(value):
                self.made.add(value.sql(dialect="spark"))
            case _:
                for part in _list_result_values(value):
                    self.find_texts(part)

    def _find_column(self, column: exp.Column) -> None:
        names = [part.name.lower() for part in column.parts]
        self.columns |= {name for name in names if is_text(self.types.get(name, ""))}
        for aliased in (aliased for name in names for aliased in self.aliases.get(name, ())):
            self.find_texts(aliased)

    def _may_be_moment(self, value: exp.Expr) -> bool:
        """Whether a value may be a timestamp; True if its type is not known."""
        return any(self._is_moment_part(part, self._moment_aliases) for part in _list_deciding_parts(value))

    @cached_property
    def _moment_aliases(self) -> set[str]:
        """Names of aliases whose value may be a timestamp, through other aliases too.

        A name without a known type that is made of itself may be one: it can be a column of a generator, too.
        """
        parts = {
            name: [part for value in made for part in _list_deciding_parts(value)]
            for name, made in self.aliases.items()
        }
        made_of = {
            name: {part.name.lower() for part in nodes if isinstance(part, exp.Column)} for name, nodes in parts.items()
        }
        moments = {name for name in parts if name not in self.types and _is_made_of_itself(name, made_of)}
        while more := {
            name
            for name, nodes in parts.items()
            if name not in moments and any(self._is_moment_part(part, moments) for part in nodes)
        }:
            moments |= more
        return moments

    def _is_moment_part(self, part: exp.Expr, moments: Collection[str]) -> bool:
        """Whether a part of a value may be a timestamp, if the aliases that may be one are `moments`."""
        match part:
            case exp.Literal() | exp.Null() | exp.Boolean() | exp.DPipe() | exp.Predicate() | exp.Count():
                return False
            case exp.Cast():
                return _is_moment(part)
            case exp.Column():
                name = part.name.lower()
                known = [self.types[path.name.lower()] for path in part.parts if path.name.lower() in self.types]
                is_known = any(map(_MOMENT.search, known)) if known else name not in self.aliases
                return is_known or name in moments
        return not isinstance(part, exp.Func) or _TEXT_FUNCTIONS.isdisjoint(list_function_names(part))


def _is_made_of_itself(name: str, made_of: Mapping[str, Collection[str]]) -> bool:
    """Whether `name` is among the names that it is made of, at any depth."""
    seen: set[str] = set()
    ahead = list(made_of[name])
    while ahead and name not in seen:
        part = ahead.pop()
        if part not in seen:
            seen.add(part)
            ahead += made_of.get(part, ())
    return name in seen


def _list_deciding_parts(value: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the parts of a value that say whether it is a timestamp: of `a + b` and `coalesce(a, b)` both."""
    bare = value.unnest()
    if isinstance(bare, _LIKE_THEIR_PARTS) and not isinstance(bare, exp.DPipe | exp.Predicate | exp.Count):
        for part in _list_result_values(bare):
            yield from _list_deciding_parts(part)
    else:
        yield bare


_TEXT_FUNCTIONS = frozenset(
    {"LOWER", "LCASE", "UPPER", "UCASE", "INITCAP", "TRIM", "CONCAT", "CONCAT_WS", "REPLACE", "REGEXP_REPLACE"}
    | {"TO_CHAR", "LENGTH", "ABS", "ROUND", "SIZE", "HASH", "MD5", "SHA2", "SHA"}
    | {"TO_DATE", "TS_OR_DS_TO_DATE", "DATE_ADD", "DATE_SUB", "YEAR", "MONTH", "DAY", "LAST_DAY"}
    | _CUT_OUT
    | _CUT_FROM
)
"""Functions that never return a timestamp."""


def _list_result_values(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the arguments of an expression; of a CASE or IF only the results of its branches, not the conditions."""
    if isinstance(node, exp.Case):
        yield from (part.args["true"] for part in node.args["ifs"])
        yield from filter(None, [node.args.get("default")])
    elif isinstance(node, exp.If):
        yield from (part for part in (node.args.get("true"), node.args.get("false")) if part is not None)
    else:
        yield from (part.unnest() for part in node.iter_expressions() if not isinstance(part, exp.DataType | exp.Query))


def _is_moment(cast: exp.Cast) -> bool:
    return any(kind.this in _MOMENTS for kind in cast.to.find_all(exp.DataType))


def _may_be_time_of_day(value: exp.Expr) -> bool:
    """Whether a value is a part of a text or a formatted timestamp, so that it may be a time without a date."""
    if not isinstance(value, exp.Func):
        return False
    names = set(list_function_names(value))
    if names & _CUT_FROM:
        start = value.args.get("start") or next(iter(value.expressions[1:2]), None)
        return not (isinstance(start, exp.Literal) and start.name in ("0", "1"))
    shape = value.args.get("format")
    has_date = isinstance(shape, exp.Literal) and "y" in shape.name.lower()
    return bool(names & _CUT_OUT) and not has_date
