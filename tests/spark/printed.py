"""Random queries, printed by a printer of their own: with parentheses only where Spark's grammar needs them.

Each part that is drawn is a text and how tightly its outermost operator binds; whoever puts parts together knows how
tightly they have to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

Kind = Literal["int", "string", "boolean", "timestamp"]

TABLES = {
    "r": {"i": "int", "j": "int", "s": "string", "b": "boolean", "at": "timestamp"},
    "q": {"i": "int", "k": "int", "s": "string"},
}


class Binds(IntEnum):
    """How tightly operators bind, from the loosest on."""

    OR = 1
    AND = 2
    NOT = 3
    PREDICATE = 4
    COMPARISON = 5
    BIT_OR = 6
    BIT_XOR = 7
    BIT_AND = 8
    SHIFT = 9
    SUM = 10
    PRODUCT = 11
    SIGN = 12
    PRIMARY = 13


@dataclass(frozen=True)
class Printed:
    """An expression's text, and the outermost operator in it."""

    text: str
    binds: Binds = Binds.PRIMARY

    def at(self, least: Binds) -> str:
        """The text where operators around it bind so tightly that it has to bind at least as `least`."""
        return self.text if self.binds >= least else f"({self.text})"


@dataclass(frozen=True)
class Scope:
    """The columns that an expression can name, by kind."""

    columns: tuple[tuple[str, str], ...]

    def of(self, kind: Kind) -> list[Printed]:
        return [Printed(name) for name, own in self.columns if own == kind]


_LEFT_TO_RIGHT: Sequence[tuple[str, Binds]] = (
    ("|", Binds.BIT_OR),
    ("^", Binds.BIT_XOR),
    ("&", Binds.BIT_AND),
    ("+", Binds.SUM),
    ("-", Binds.SUM),
)
_INTS = ("0", "1", "2", "-1", "- 3", "7", "5S", "-128Y", "+4", "12L", "cast('6' as int)", "-'2'::int", "'8'::int")
_STRINGS = (
    *("'a'", "''", "'O''Brien'", '"it\'s"', r"'b\'c'", r"r'\d+'", "'x' 'y'", r"'\\d'", '"q""r"', "'%a_'"),
    *(r"'\u0041'", "-1::string", "date'2020-02-29'::string", "'--'", "'ä€😀'"),
)
_TIMES = (
    *("timestamp'2024-02-29 12:00:00'", "timestamp '2020-01-31'", "date'2020-01-01'::timestamp"),
    *("timestamp'2020-01-01 10:00:00'::date::timestamp",),
)
_INTERVALS = (
    *("interval 1 day", "interval '1' day", "interval 1 day 2 hours", "interval -1 day 2 hours", "-interval 3 hours"),
    *(
        "interval '1 02:03:04' day to second",
        "interval 1 month",
        "interval '1-2' year to month",
        "interval '90' minute",
    ),
    *("interval 1 day 2 hours * 2", "interval '2' hour / 2", "interval 1 year 2 months", "interval '1 day 2 hours'"),
)


@st.composite
def expressions(draw: DrawFn, scope: Scope, depth: int = 3) -> Printed:
    """An expression of any kind."""
    kind: Kind = draw(st.sampled_from(("int", "string", "boolean", "timestamp")))
    return draw(of_kind(kind, scope, depth))


def of_kind(kind: Kind, scope: Scope, depth: int) -> st.SearchStrategy[Printed]:
    """An expression of one kind."""
    return {"int": numbers, "string": texts, "boolean": conditions, "timestamp": times}[kind](scope, depth)


@st.composite
def numbers(draw: DrawFn, scope: Scope, depth: int) -> Printed:
    leaf = _leaf(draw, "int", scope, _INTS)
    if depth == 0:
        return leaf
    inner = numbers(scope, depth - 1)
    match draw(st.sampled_from(("leaf", "binary", "binary", "shift", "product", "sign", "case", "call", "length"))):
        case "binary":
            operator, binds = draw(st.sampled_from(_LEFT_TO_RIGHT))
            return _binary(draw(inner), operator, draw(inner), binds)
        case "shift":
            amount = _binary(draw(inner), "&", Printed("3"), Binds.BIT_AND)
            return _binary(draw(inner), draw(st.sampled_from(("<<", ">>", ">>>"))), amount, Binds.SHIFT)
        case "product":
            operator = draw(st.sampled_from(("*", "%", "div")))
            few = _binary(draw(inner), "%", Printed("5"), Binds.PRODUCT)
            return _binary(few, operator, Printed(draw(st.sampled_from(("3", "-2", "7L")))), Binds.PRODUCT)
        case "sign":
            sign = draw(st.sampled_from(("-", "~", "+", "- ")))
            return Printed(f"{sign} {draw(inner).at(Binds.SIGN)}", Binds.SIGN)
        case "case":
            return _case(draw, inner, scope, depth)
        case "call":
            args = f"{draw(inner).text}, {draw(inner).text}"
            return Printed(f"{draw(st.sampled_from(('coalesce', 'greatest', 'least', 'nullif')))}({args})")
        case "length":
            return Printed(f"length({draw(texts(scope, depth - 1)).text})")
    return leaf


@st.composite
def texts(draw: DrawFn, scope: Scope, depth: int) -> Printed:
    leaf = _leaf(draw, "string", scope, _STRINGS)
    if depth == 0:
        return leaf
    inner = texts(scope, depth - 1)
    match draw(st.sampled_from(("leaf", "concat", "cast", "call", "case"))):
        case "concat":
            right = draw(st.one_of(inner, numbers(scope, depth - 1)))
            return _binary(draw(inner), "||", right, Binds.SUM)
        case "cast":
            whole = draw(numbers(scope, depth - 1))
            plain = Printed(f"{whole.at(Binds.PRIMARY)}::string")
            return draw(st.sampled_from((plain, Printed(f"cast({whole.text} as string)"))))
        case "call":
            call = draw(
                st.sampled_from(("upper({})", "substring({}, 2)", "trim({})", "concat({}, 'z')", "nvl({}, '?')"))
            )
            return Printed(call.format(draw(inner).text))
        case "case":
            return _case(draw, inner, scope, depth)
    return leaf


@st.composite
def times(draw: DrawFn, scope: Scope, depth: int) -> Printed:
    leaf = _leaf(draw, "timestamp", scope, _TIMES)
    if depth == 0:
        return leaf
    inner = times(scope, depth - 1)
    match draw(st.sampled_from(("leaf", "sum", "sum", "case"))):
        case "sum":
            operator = draw(st.sampled_from(("+", "-")))
            return Printed(f"{draw(inner).at(Binds.SUM)} {operator} {draw(st.sampled_from(_INTERVALS))}", Binds.SUM)
        case "case":
            return _case(draw, inner, scope, depth)
    return leaf


@st.composite
def conditions(draw: DrawFn, scope: Scope, depth: int) -> Printed:
    leaf = _leaf(draw, "boolean", scope, ("true", "false", "null::boolean"))
    if depth == 0:
        return leaf
    inner = conditions(scope, depth - 1)
    kind: Kind = draw(st.sampled_from(("int", "string", "timestamp")))
    operand = of_kind(kind, scope, depth - 1)
    negated = draw(st.sampled_from(("", "not ")))
    match draw(
        st.sampled_from(("comparison", "comparison", "and", "or", "not", "between", "in", "like", "is", "case"))
    ):
        case "comparison":
            operator = draw(st.sampled_from(("=", "<>", "<", ">=", "<=>", "!=", "==")))
            operands = inner if operator in ("=", "<=>") and draw(st.booleans()) else operand
            return _binary(draw(operands), operator, draw(operands), Binds.COMPARISON)
        case "and":
            return _binary(draw(inner), "and", draw(inner), Binds.AND)
        case "or":
            return _binary(draw(inner), "or", draw(inner), Binds.OR)
        case "not":
            sign = draw(st.sampled_from(("not ", "! ")))
            return Printed(f"{sign}{draw(inner).at(Binds.NOT)}", Binds.NOT)
        case "between":
            low, high = draw(operand).at(Binds.COMPARISON), draw(operand).at(Binds.COMPARISON)
            return _predicate(draw(operand), f"{negated}between {low} and {high}")
        case "in":
            values = ", ".join(part.text for part in draw(st.lists(operand, min_size=1, max_size=3)))
            return _predicate(draw(operand), f"{negated}in ({values})")
        case "like":
            pattern = draw(
                st.sampled_from(("like 'a%'", "like '%|_%' escape '|'", "rlike '^[a-z]'", "ilike any ('A%', 'q')"))
            )
            return _predicate(draw(texts(scope, depth - 1)), negated + pattern)
        case "is":
            item, word = draw(
                st.sampled_from(
                    ((operand, "null"), (inner, "true"), (inner, "unknown"), (operand, "distinct from null"))
                )
            )
            return _predicate(draw(item), f"is {negated}{word}")
        case "case":
            return _case(draw, inner, scope, depth)
    return leaf


def _leaf(draw: DrawFn, kind: Kind, scope: Scope, literals: Sequence[str]) -> Printed:
    return draw(st.sampled_from([*scope.of(kind) * 3, *map(_literal, literals)]))


def _literal(text: str) -> Printed:
    return Printed(text, Binds.SIGN if text.startswith(("+", "-")) else Binds.PRIMARY)


def _binary(left: Printed, operator: str, right: Printed, binds: Binds) -> Printed:
    """Operators are read from left to right; only AND and OR may have their like on the right without parentheses."""
    is_associative = operator in ("and", "or")
    tighter = binds if is_associative else Binds(binds + 1)
    return Printed(f"{left.at(binds)} {operator} {right.at(tighter)}", binds)


def _predicate(value: Printed, rest: str) -> Printed:
    return Printed(f"{value.at(Binds.COMPARISON)} {rest}", Binds.PREDICATE)


def _case(draw: DrawFn, inner: st.SearchStrategy[Printed], scope: Scope, depth: int) -> Printed:
    condition = draw(conditions(scope, depth - 1))
    return Printed(f"case when {condition.text} then {draw(inner).text} else {draw(inner).text} end")


@st.composite
def queries(draw: DrawFn) -> str:
    """A query with two columns, `x0` and `x1`."""
    kinds: tuple[Kind, Kind] = draw(st.tuples(*[st.sampled_from(("int", "string", "boolean"))] * 2))
    match draw(st.sampled_from(("select", "select", "set", "with", "nested"))):
        case "set":
            return draw(_set_operations(kinds, 2)).text
        case "with":
            named = draw(selects(kinds))
            return f"with w as ({named}) {draw(selects(kinds, _shown_by('w', kinds)))}"
        case "nested":
            return draw(selects(kinds, _shown_by(f"({draw(selects(kinds))}) as w", kinds)))
    return draw(selects(kinds))


Source = tuple[str, Scope]
"""The text of a FROM clause, and the columns that it gives."""


def _shown_by(query: str, kinds: tuple[Kind, ...]) -> Source:
    return query, Scope(tuple((f"x{place}", kind) for place, kind in enumerate(kinds)))


@st.composite
def _set_operations(draw: DrawFn, kinds: tuple[Kind, Kind], depth: int) -> Printed:
    """INTERSECT binds more tightly than all others, which are read from left to right."""
    if depth == 0:
        return Printed(draw(selects(kinds)))
    operator = draw(
        st.sampled_from(("union all", "union", "intersect", "intersect all", "except", "minus", "except all"))
    )
    binds = Binds.AND if operator.startswith("intersect") else Binds.OR
    left, right = (draw(_set_operations(kinds, draw(st.integers(0, depth - 1)))) for _ in range(2))
    return Printed(f"{left.at(binds)} {operator} {right.at(Binds(binds + 1))}", binds)


@st.composite
def selects(draw: DrawFn, kinds: tuple[Kind, Kind], source: Source | None = None) -> str:
    """A select of two columns of these kinds, over tables, joins of them or what is given."""
    text, scope = source or draw(_sources())
    shape = draw(st.sampled_from(("plain", "plain", "grouped", "windows", "distinct")))
    where = draw(st.sampled_from(("", "", " where {}")))
    rest = f" from {text}{where.format(draw(_filters(scope)))}"
    if shape == "grouped":
        return draw(_grouped(kinds, scope, rest))
    shown = [draw(of_kind(kind, scope, 2)).text for kind in kinds]
    if shape == "windows":
        shown[0] = draw(_windows(scope))
    columns = ", ".join(f"{value} as x{place}" for place, value in enumerate(shown))
    return f"select {'distinct ' if shape == 'distinct' else ''}{columns}{rest}"


@st.composite
def _sources(draw: DrawFn) -> Source:
    if draw(st.booleans()):
        table = draw(st.sampled_from(sorted(TABLES)))
        return table, Scope(tuple(TABLES[table].items()))
    columns = [
        (f"{alias}.{name}", kind) for alias, table in (("a", "r"), ("b", "q")) for name, kind in TABLES[table].items()
    ]
    scope = Scope(tuple(columns))
    join = draw(st.sampled_from(("join", "left join", "right join", "full join")))
    more = draw(st.sampled_from(("", " and {}", " and not {}")))
    extra = more.format(draw(conditions(scope, 1)).at(Binds.NOT))
    return f"r as a {join} q as b on a.i = b.i{extra}", scope


@st.composite
def _filters(draw: DrawFn, scope: Scope) -> str:
    plain = draw(conditions(scope, 2))
    number = draw(numbers(scope, 1)).at(Binds.COMPARISON)
    match draw(st.sampled_from(("plain", "plain", "in", "exists", "value"))):
        case "in":
            return f"{number} in (select k from q) and {plain.at(Binds.AND)}"
        case "exists":
            return f"{plain.at(Binds.AND)} and not exists (select 1 from q where k = 3)"
        case "value":
            return f"{number} <= (select max(k) from q) and {plain.at(Binds.AND)}"
    return plain.text


@st.composite
def _grouped(draw: DrawFn, kinds: tuple[Kind, Kind], scope: Scope, rest: str) -> str:
    key = draw(of_kind(kinds[0], scope, 2)).text
    value = draw(of_kind(kinds[1], scope, 2)).text
    aggregate = draw(st.sampled_from(("max({})", "min({})", "max(distinct {})")))
    aggregate += draw(st.sampled_from(("", f" filter (where {draw(conditions(scope, 1)).text})")))
    having = draw(st.sampled_from(("", "", " having count(*) > 1", f" having not max({value}) is null or x0 is null")))
    by = draw(st.sampled_from((key, "1", "x0") if not any(key == name for name, _ in scope.columns) else (key,)))
    return f"select {key} as x0, {aggregate.format(value)} as x1{rest} group by {by}{having}"


@st.composite
def _windows(draw: DrawFn, scope: Scope) -> str:
    partition = draw(of_kind("string", scope, 1)).text
    value = draw(numbers(scope, 1)).text
    order = draw(numbers(scope, 1)).text
    frame = draw(
        st.sampled_from(("", " rows between unbounded preceding and unbounded following", " range 1 preceding"))
    )
    direction = draw(st.sampled_from(("", " desc", " desc nulls last")))
    call = draw(st.sampled_from((f"sum({value})", f"count({value})", f"max({value})")))
    return f"{call} over (partition by {partition} order by {order}{direction}{frame})"
