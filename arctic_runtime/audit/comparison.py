"""Builds the SQL that compares a model's table with its query, and gives each difference its likely cause.

It reads up to four relations with the columns `c0`, `c1`, …, those of the key first: QUERY, TABLE, OWN and NEXT. The
SQL is built as expressions of sqlglot, so that tests can run it in another engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

Kind = Literal["lost", "left over", "stale", "doubled", "ambiguous"]

QUERY, TABLE, OWN, NEXT = "audit_query", "audit_table", "audit_own", "audit_next"
"""Names of the compared relations: the full query, over right upstream rows; the table; the full query over the
upstream tables as they are; and the rows that the next incremental run computes."""

DIFFERENCES = "audit_differences"
TOLERANCE = "1e-9"
"""Relative difference up to which floating-point numbers are equal, since a sum depends on the order of its rows."""


@dataclass(frozen=True)
class ComparedColumn:
    """A column that is compared, by its name in the table."""

    name: str
    is_key: bool = False
    is_float: bool = False


@dataclass(frozen=True)
class CauseRule:
    """The condition under which a difference gets the cause of code `cause`; the first rule that holds decides."""

    cause: str
    condition: exp.Expr


@dataclass(frozen=True)
class Comparison:
    """The columns of a comparison, those of the key first, and the relations that exist for it.

    Without a key all columns are key columns, and the numbers of equal rows are compared. `has_own` and `has_next` say
    whether the relations OWN and NEXT exist. `replaces_rows` says that the next run may replace rows; otherwise it only
    appends rows.
    """

    columns: tuple[ComparedColumn, ...]
    has_own: bool = False
    has_next: bool = False
    replaces_rows: bool = True

    @property
    def is_keyed(self) -> bool:
        return not all(column.is_key for column in self.columns)

    @property
    def keys(self) -> range:
        return range(sum(column.is_key for column in self.columns))

    @property
    def values(self) -> range:
        return range(len(self.keys), len(self.columns))


def refer_to_query(index: int) -> exp.Column:
    """Returns a reference to the query's value of the compared column at `index`."""
    return exp.column(f"q{index}")


def refer_to_table(index: int) -> exp.Column:
    """Returns a reference to the table's value of the compared column at `index`."""
    return exp.column(f"t{index}")


def differs_in(index: int) -> exp.Column:
    """Returns the condition that the compared column at `index` differs between the query's and the table's row."""
    return exp.column(f"d{index}")


def is_kind(kind: Kind) -> exp.Expr:
    return exp.column("kind").eq(exp.Literal.string(kind))


def build_differences(comparison: Comparison, rules: Sequence[CauseRule]) -> exp.Select:
    """Builds the query that returns one row for each key with a difference; without a key, for each distinct row.

    Its columns are: `kind`; `cause`; `row_count`, the number of wrong rows; `q0`… and `t0`…, the values of query and
    table; `query_copies` and `table_copies`, their numbers of rows; and for each column that is no key, by its index,
    `d1`…, whether its values differ.
    """
    sides = [QUERY, TABLE, *([OWN] if comparison.has_own else []), *([NEXT] if comparison.has_next else [])]
    select = exp.select("judged.*", exp.alias_(_choose_cause(comparison, rules), "cause")).from_("judged")
    for side in sides[2:]:
        keys = ((index, exp.column(f"c{index}", _GROUPED[side])) for index in comparison.keys)
        on = _all(_is_same(_choose_key(index), key) for index, key in keys)
        select = select.join(_GROUPED[side], on=on, join_type="left")
    for side in sides:
        select = select.with_(_GROUPED[side], as_=_group_rows(comparison, side))
    select = select.with_("pairs", as_=_pair_rows(comparison)).with_("judged", as_=_judge_pairs(comparison))
    return select.where(exp.column("kind").is_(exp.null()).not_())


_GROUPED = {QUERY: "query_rows", TABLE: "table_rows", OWN: "own_rows", NEXT: "next_rows"}
"""The names of the relations after their rows are grouped by key."""


def count_groups() -> exp.Select:
    """Builds the query that counts differences per `kind` and `cause`: distinct `keys`, and `wrong_rows`."""
    counted = exp.alias_(exp.Count(this=exp.Star()), "keys")
    summed = exp.alias_(exp.Sum(this=exp.column("row_count")), "wrong_rows")
    names = ("kind", "cause")
    return exp.select(*names, counted, summed).from_(DIFFERENCES).group_by(*names)


def sample_groups(comparison: Comparison, examples: int) -> exp.Select:
    """Builds the query of the first differences of each kind and cause, in the order of their keys."""
    order = [_choose_key(index) for index in comparison.keys]
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column("kind"), exp.column("cause")],
        order=exp.Order(expressions=[exp.Ordered(this=expression) for expression in order]),
    )
    placed = exp.select("*", exp.alias_(place, "place")).from_(DIFFERENCES).subquery("placed")
    return exp.select("*").from_(placed).where(exp.column("place") <= exp.Literal.number(examples))


def _choose_key(index: int) -> exp.Expr:
    is_lost = exp.column("query_copies").eq(exp.Literal.number(0))
    return exp.case().when(is_lost, refer_to_table(index)).else_(refer_to_query(index))


def _group_rows(comparison: Comparison, side: str) -> exp.Select:
    """Groups the rows of the relation `side` by key, to the columns `c0`… and `copies`, the number of rows per key."""
    keys = [exp.column(f"c{index}") for index in comparison.keys]
    values = [exp.alias_(exp.AnyValue(this=exp.column(f"c{i}")), f"c{i}") for i in comparison.values]
    copies = exp.alias_(exp.Count(this=exp.Star()), "copies")
    return exp.select(*keys, *values, copies).from_(side).group_by(*(key.copy() for key in keys))


def _pair_rows(comparison: Comparison) -> exp.Select:
    """Joins the grouped rows of query and table on the key, in full; a row that one side lacks has 0 copies there."""
    query, table = _GROUPED[QUERY], _GROUPED[TABLE]
    indexes = range(len(comparison.columns))
    columns = [exp.alias_(exp.column(f"c{index}", query), f"q{index}") for index in indexes]
    columns += [exp.alias_(exp.column(f"c{index}", table), f"t{index}") for index in indexes]
    columns += [exp.alias_(_count_copies(query), "query_copies"), exp.alias_(_count_copies(table), "table_copies")]
    on = _all(_is_same(exp.column(f"c{index}", query), exp.column(f"c{index}", table)) for index in comparison.keys)
    return exp.select(*columns).from_(query).join(table, on=on, join_type="full")


def _count_copies(side: str) -> exp.Expr:
    return exp.func("COALESCE", exp.column("copies", side), exp.Literal.number(0))


def _judge_pairs(comparison: Comparison) -> exp.Select:
    """Adds to each pair of rows the kind of its difference, the number of wrong rows, and flags of differing values.

    The kind is null if the rows are equal. The flags are `d1`, …, by the index of a column that is no key.
    """
    query, table = exp.column("query_copies"), exp.column("table_copies")
    zero, one = exp.Literal.number(0), exp.Literal.number(1)
    differs = [_differ(refer_to_query(i), refer_to_table(i), comparison.columns[i].is_float) for i in comparison.values]
    kind = exp.case()
    if comparison.is_keyed:
        kind = kind.when(query > one, exp.Literal.string("ambiguous"))
    kind = kind.when(query > table, exp.Literal.string("lost"))
    kind = kind.when(query.eq(zero), exp.Literal.string("left over"))
    kind = kind.when(table > query, exp.Literal.string("doubled"))
    if differs:
        kind = kind.when(exp.or_(*differs), exp.Literal.string("stale"))
    rows = exp.case().when(query.eq(table), one).else_(exp.func("ABS", exp.Sub(this=query, expression=table)))
    shown = [exp.alias_(differs[place], f"d{index}") for place, index in enumerate(comparison.values)]
    return exp.select("*", exp.alias_(kind, "kind"), exp.alias_(rows, "row_count"), *shown).from_("pairs")


def _choose_cause(comparison: Comparison, rules: Sequence[CauseRule]) -> exp.Expr:
    """Builds the expression of a difference's cause: `pending`, else `inherited`, else by the first rule that holds."""
    first = [CauseRule("pending", _is_pending(comparison))] if comparison.has_next else []
    first += [CauseRule("inherited", _is_inherited(comparison))] if comparison.has_own else []
    cause = exp.case()
    for rule in (*first, *rules, CauseRule("unknown", exp.true())):
        cause = cause.when(rule.condition, exp.Literal.string(rule.cause))
    return cause


def _is_pending(comparison: Comparison) -> exp.Expr:
    """Builds the condition that the next incremental run corrects the difference, since it writes the query's row."""
    copies = _count_copies(_GROUPED[NEXT])
    missing = exp.Sub(this=exp.column("query_copies"), expression=exp.column("table_copies"))
    comes = exp.and_(is_kind("lost"), copies >= missing)
    if not comparison.is_keyed:
        return comes
    same = _all(_is_equal(comparison, index, refer_to_query(index), NEXT) for index in comparison.values)
    replaced = exp.and_(is_kind("stale"), copies.copy() >= exp.Literal.number(1))
    return exp.and_(exp.or_(comes, replaced) if comparison.replaces_rows else comes, same)


def _is_inherited(comparison: Comparison) -> exp.Expr:
    """Builds the condition that the table has exactly the row that the query returns over wrong upstream tables."""
    copies = _count_copies(_GROUPED[OWN])
    same = (_is_equal(comparison, index, refer_to_table(index), OWN) for index in comparison.values)
    return _all([copies.eq(exp.column("table_copies")), *same])


def _is_equal(comparison: Comparison, index: int, value: exp.Expr, side: str) -> exp.Expr:
    other = exp.column(f"c{index}", _GROUPED[side])
    return exp.not_(_differ(value, other, comparison.columns[index].is_float))


def _is_same(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.NullSafeEQ(this=left, expression=right)


def _differ(left: exp.Expr, right: exp.Expr, is_float: bool) -> exp.Expr:
    """Builds the condition that two values differ, floating-point numbers by more than the relative TOLERANCE."""
    differ = exp.not_(_is_same(left, right))
    if not is_float:
        return differ
    distance = exp.func("ABS", exp.Sub(this=left.copy(), expression=right.copy()))
    size = exp.func("GREATEST", exp.func("ABS", left.copy()), exp.func("ABS", right.copy()))
    near = distance <= exp.Mul(this=size, expression=exp.Literal.number(TOLERANCE))
    return exp.and_(differ, exp.not_(exp.func("COALESCE", near, exp.false())))


def _all(conditions: Iterable[exp.Expr]) -> exp.Expr:
    whole: exp.Expr = exp.true()
    for condition in conditions:
        whole = exp.and_(whole, condition)
    return whole
