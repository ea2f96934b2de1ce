"""Queries whose results are kept in tables of DuckDB, and follow what changes by the plans of maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Image, Node, list_columns
from arctic_runtime.ivm.frontend.analyse import Analysed
from arctic_runtime.ivm.render import build_query, name_input
from arctic_runtime.ivm.rules.terms import read_image
from arctic_runtime.ivm.strategies.aggregate_state import ROWS, TOTALS, AggregateState
from arctic_runtime.ivm.strategies.maintain import AFFECTED, AffectedKeys, Deltas, Facts, plan_maintenance
from arctic_runtime.model.names import TableName
from tests.unit.ivm.duck import CATALOG, SCHEMA

IMAGES: tuple[Image, ...] = ("old", "new", "either", "delta")


@dataclass
class Kept:
    """A query whose result is kept in a table of its own; `state` is what another one has the totals of.

    `key` are the tree's columns by which affected rows are told.
    """

    number: int
    sql: str
    analysed: Analysed
    facts: Facts
    key: tuple[str, ...]
    state: Node | None = None

    @property
    def table(self) -> str:
        return f"kept_{self.number}"

    @property
    def totals(self) -> str:
        return f"totals_{self.number}"


def keep_old(con: duckdb.DuckDBPyConnection, tables: Iterable[str]) -> None:
    """Before a batch: the tables as they are, as the images that trees read as old ones."""
    for table in tables:
        con.execute(f'create or replace table "{_image(table, "old")}" as from {table}')


def make_images(con: duckdb.DuckDBPyConnection, tables: Iterable[str]) -> frozenset[TableName]:
    """After a batch: all other images by which trees read the tables; returns those that have changed."""
    changed = set()
    for table in tables:
        old, new, either, delta = (_image(table, image) for image in IMAGES)
        con.execute(f'create or replace view "{new}" as from {table}')
        con.execute(f'create or replace temp table came as from {table} except all from "{old}"')
        con.execute(f'create or replace temp table went as from "{old}" except all from {table}')
        con.execute(f'create or replace table "{either}" as from {table} union all from went')
        signed = f"select *, 1 as {MULTIPLICITY} from came union all select *, -1 from went"
        con.execute(f'create or replace table "{delta}" as {signed}')
        if number(con, f'select count(*) from "{delta}"'):
            changed.add(TableName(CATALOG, SCHEMA, table))
    return frozenset(changed)


def _image(table: str, image: Image) -> str:
    return name_input(TableName(CATALOG, SCHEMA, table), image)


def follow(con: duckdb.DuckDBPyConnection, kept: Kept, changed: frozenset[TableName]) -> str:
    """Brings a kept result up to date; says how, and for how many keys or with how many changes."""
    try:
        plan = plan_maintenance(kept.analysed.tree, kept.key, changed, kept.facts)
    except NotMaintained as refused:
        if refused.reason != "NOTHING_NEW":
            compute(con, kept)
        return refused.reason
    if isinstance(plan, Deltas):
        _create(con, "moved", _netted(plan.changes))
        _create(con, kept.table, _with_changes(kept))
        return f"deltas {number(con, 'select count(*) from moved')}"
    if isinstance(plan, AggregateState):
        return _add_up(con, kept, plan, changed)
    assert isinstance(plan, AffectedKeys)
    _create(con, AFFECTED, build_query(plan.affected))
    _delete(con, kept, AFFECTED)
    con.execute(f"insert into {kept.table} {build_query(plan.new).sql(dialect='duckdb')}")
    return f"units {number(con, f'select count(*) from {AFFECTED}')}"


def _delete(con: duckdb.DuckDBPyConnection, kept: Kept, given: str) -> None:
    """Deletes the rows whose keys are given."""
    there = _same("k", "a", kept.key).sql(dialect="duckdb")
    con.execute(f"delete from {kept.table} as k using {given} as a where {there}")


def _same(one: str, other: str, names: Sequence[str]) -> exp.Expr:
    equal = (exp.NullSafeEQ(this=_of(one, name), expression=_of(other, name)) for name in names)
    return exp.and_(exp.true(), *equal)


def _add_up(con: duckdb.DuckDBPyConnection, kept: Kept, plan: AggregateState, changed: frozenset[TableName]) -> str:
    """Adds what moved to the totals, and replaces the rows of the groups that it touches."""
    if kept.state != plan.state:
        _create(con, kept.totals, build_query(read_image(plan.state, "old", changed)))
        kept.state = plan.state
    _create(con, "moved", build_query(plan.state_changes))
    _show(con, plan, plan.old_result, kept.totals, "was")
    _add(con, kept.totals, plan)
    _show(con, plan, plan.result, kept.totals, "now")
    con.execute(f"create or replace table full_totals as from {kept.totals} limit 0")
    con.execute(f"insert into full_totals {build_query(plan.state).sql(dialect='duckdb')}")
    for one, other in ((kept.totals, "full_totals"), ("full_totals", kept.totals)):
        assert number(con, f"select count(*) from (from {one} except all from {other})") == 0, kept.number
    _delete(con, kept, "was")
    con.execute(f"insert into {kept.table} from now")
    return f"totals {number(con, 'select count(*) from moved')}"


def _add(con: duckdb.DuckDBPyConnection, totals: str, plan: AggregateState) -> None:
    keys = [build_column(key) for key in plan.keys]
    sums = [exp.alias_(exp.Sum(this=build_column(name)), name, quoted=True) for name in plan.names]
    both = exp.union(exp.select("*").from_(totals), exp.select("*").from_("moved"), distinct=False)
    added = exp.select(*keys, *sums).from_(both.subquery("b")).group_by(*keys)
    if keys:
        there = exp.NEQ(this=exp.Sum(this=build_column(ROWS)), expression=exp.Literal.number(0))
        added = added.having(there)
    con.execute(f"create or replace table added as from {totals} limit 0")
    con.execute(f"insert into added {added.sql(dialect='duckdb')}")
    con.execute(f"create or replace table {totals} as from added")


def _show(con: duckdb.DuckDBPyConnection, plan: AggregateState, result: Node, totals: str, name: str) -> None:
    """The result's rows of the groups that moved, or of all where each matters to others."""
    touched = _same("t", "m", plan.keys).sql(dialect="duckdb")
    of_groups = f" semi join moved as m on {touched}" if plan.by_group else ""
    con.execute(f"create or replace table {TOTALS} as from {totals} as t{of_groups}")
    shown = build_query(result)
    for quotient in [div for div in shown.find_all(exp.Div) if div.this.find(exp.Mod)]:
        parts = [quotient.this.copy(), quotient.expression.copy()]
        quotient.replace(exp.Anonymous(this="quotient_of", expressions=parts))
    _create(con, name, shown)


def _netted(changes: Node) -> exp.Query:
    names = [build_column(name) for name in list_columns(changes) if name != MULTIPLICITY]
    weight = exp.Sum(this=build_column(MULTIPLICITY))
    rows = (
        exp.select(*names, exp.alias_(weight, MULTIPLICITY)).from_(build_query(changes).subquery("c")).group_by(*names)
    )
    return rows.having(exp.NEQ(this=weight.copy(), expression=exp.Literal.number(0)))


def _with_changes(kept: Kept) -> exp.Query:
    """All rows that were kept and came, without those that went, as bags."""
    names = [build_column(name) for name in list_columns(kept.analysed.tree)]
    came, went = (exp.select(*names).from_("moved").where(f"{MULTIPLICITY} {sign} 0") for sign in "><")
    return exp.except_(exp.union(exp.select(*names).from_(kept.table), came, distinct=False), went, distinct=False)


def compute(con: duckdb.DuckDBPyConnection, kept: Kept) -> None:
    shown = [exp.alias_(exp.column(f"c{place}"), name, quoted=True) for place, (_, name) in enumerate(_fields(kept))]
    names = ", ".join(f"c{place}" for place, _ in enumerate(shown))
    inner = f"select {', '.join(part.sql(dialect='duckdb') for part in shown)} from ({kept.sql}) as q({names})"
    con.execute(f"create or replace table {kept.table} as {inner}")


def _fields(kept: Kept) -> Sequence[tuple[str, str]]:
    """The query's columns with those of the tree, which shows each of them once and in this order."""
    assert list_columns(kept.analysed.tree) == tuple(made for _, made in kept.analysed.outputs)
    return kept.analysed.outputs


def differing(con: duckdb.DuckDBPyConnection, kept: Kept) -> int:
    """How many rows the kept result has and its query has not, and the other way round, last digits of floats apart."""
    types = [row[1] for row in con.execute(f"describe {kept.table}").fetchall()]
    named = [f"c{place}" for place in range(len(types))]
    shown = [f"round({name}, 6)" if kind == "DOUBLE" else name for name, kind in zip(named, types, strict=True)]
    now, wanted = (
        f"(select {', '.join(shown)} from ({query}) as q({', '.join(named)}))"
        for query in (f"from {kept.table}", kept.sql)
    )
    more, less = f"{now} except all {wanted}", f"{wanted} except all {now}"
    return number(con, f"select count(*) from (({more}) union all ({less}))")


def _create(con: duckdb.DuckDBPyConnection, name: str, query: exp.Query) -> None:
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    con.execute(exp.Create(this=table, kind="TABLE", replace=True, expression=query).sql(dialect="duckdb"))


def number(con: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = con.execute(sql).fetchone()
    assert row is not None
    return int(row[0])


def _of(alias: str, name: str) -> exp.Column:
    return exp.column(name, table=alias, quoted=True)
