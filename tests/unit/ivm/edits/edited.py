"""An edit of a query, made in DuckDB: the table that the old query left, and what the edit makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import duckdb

from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, list_scans, name_before
from arctic_runtime.ivm.edits.edit import Edit, OwnTable, Query, plan_edit
from arctic_runtime.ivm.frontend.analyse import Analysed, analyse_query
from arctic_runtime.ivm.frontend.scope import Relation, ViewText
from arctic_runtime.ivm.render import name_input, render_sql
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from tests.unit.ivm.duck import CATALOG, SCHEMA, connect, fetch, in_duckdb, load

RELATIONS = {
    "lake.raw.orders": Relation(
        (
            Column("id", "bigint"),
            Column("customer", "int"),
            Column("amount", "int"),
            Column("state", "string"),
            Column("day", "string"),
        ),
        key=("id",),
    ),
    "lake.raw.customers": Relation(
        (Column("customer", "int"), Column("name", "string"), Column("city", "string"), Column("country", "int")),
        key=("customer",),
    ),
    "lake.raw.countries": Relation((Column("country", "int"), Column("title", "string")), key=("country",)),
    "lake.raw.lines": Relation(
        (Column("id", "bigint"), Column("line", "int"), Column("price", "int")), key=("id", "line")
    ),
    "lake.raw.heap": Relation((Column("id", "bigint"), Column("amount", "int"), Column("customer", "int"))),
}
OWN = TableName(CATALOG, SCHEMA, "own")
Rows = dict[tuple[Any, ...], dict[str, Any]]


def random_sources(draw: Random) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of the sources, with nulls and with keys that other tables do not have."""

    def some(most: int) -> int | None:
        return draw.choice([None, *range(most)])

    states, names = ("paid", "open", None), ("ann", "bob", None)
    days = ("2024-01-01", "2024-02-01", None)
    return {
        "orders": [
            (i, some(6), some(6), draw.choice(states), draw.choice(days)) for i in range(draw.choice((0, 12, 12, 20)))
        ],
        "customers": [(i, draw.choice(names), draw.choice(names), some(3)) for i in range(draw.choice((2, 5)))],
        "countries": [(i, draw.choice(names)) for i in range(2)],
        "lines": [(i, j, some(5)) for i in range(8) for j in range(draw.choice((0, 1, 2)))],
        "heap": [(i + 100, some(5), some(4)) for i in range(draw.choice((0, 4, 8)))],
    }


@dataclass(frozen=True)
class Tables:
    """The tables and views that queries read."""

    relations: Mapping[str, Relation]
    views: Mapping[str, str | ViewText] = field(default_factory=dict)

    def analyse(self, sql: str) -> Analysed:
        return analyse_query(sql, self.relations, self.views, CATALOG, SCHEMA)


SHOP = Tables(RELATIONS)


def to_query(analysed: Analysed, key: tuple[str, ...]) -> Query:
    columns = {name.lower(): made for name, made in analysed.outputs}
    return Query(analysed.tree, analysed.outputs, tuple(columns[name.lower()] for name in key), analysed.types)


class RepeatedKey(Exception):
    """Raised if the old query has several rows of a key, so that no table could have been made of it."""


@dataclass(frozen=True)
class Edited:
    """An edit as it is planned, and the change rows that it made of a table."""

    edit: Edit
    changed: Rows
    """For each changed key the row after, without the rest where there is none."""

    kept: int
    """Rows of the table that are in no pair."""

    is_repeated: bool = False
    """Whether the new query has several rows of a key, so that no table can be made of it."""


def plan(
    old: str,
    new: str,
    key: tuple[str, ...],
    tables: Tables = SHOP,
    renamed: Mapping[str, str] = {},
    stale: tuple[str, ...] = (),
) -> Edit:
    """Plans an edit; `renamed` maps new names of columns to old ones, `stale` are columns that no query has."""
    before = tables.analyse(old)
    new_names = {name: new_name for new_name, name in renamed.items()}
    columns = {name.lower(): new_names.get(name, name) for name, _ in before.outputs}
    old_key = tuple(renamed.get(name, name) for name in key)
    own = OwnTable(OWN, columns, (*columns.values(), *stale))
    return plan_edit(to_query(before, old_key), to_query(tables.analyse(new), key), own)


def edit_table(
    old: str,
    new: str,
    sources: dict[str, list[tuple[Any, ...]]],
    key: tuple[str, ...] = ("id",),
    tables: Tables = SHOP,
    prepare: Callable[[duckdb.DuckDBPyConnection], object] = lambda _: None,
    renamed: Mapping[str, str] = {},
    stale: tuple[str, ...] = (),
) -> Edited:
    """Makes the table of the old query, edits it, and asserts that it is the result of the new one.

    `prepare` makes the views that the queries read. `key` names the columns of the key in the new query, `renamed` maps
    new names of columns to old ones, and `stale` are columns of the table with values of older queries.
    """
    edit = plan(old, new, key, tables, renamed, stale)
    key = tuple(map(str.lower, key))
    with connect() as con:
        for name, rows in sources.items():
            load(con, TableName(CATALOG, SCHEMA, name), tables.relations[f"lake.raw.{name}"].columns, rows)
        prepare(con)
        more = "".join(f', 7 as "{name}"' for name in stale)
        con.execute(f"create table own as select *{more} from ({in_duckdb(old)})")
        for new_name, name in renamed.items():
            con.execute(f'alter table own rename "{name}" to "{new_name}"')
        _show_images(con, edit)
        stored = _read(con, "select * from own")
        before = {_pick(row, key): row for row in stored}
        if len(before) < len(stored):
            raise RepeatedKey
        wanted = _read(con, in_duckdb(new))
        if edit.repeated is not None:
            repeated = fetch(con, _sql(edit.repeated))
            assert bool(repeated) == (max(Counter(_pick(row, key) for row in wanted).values(), default=0) > 1)
            if repeated:
                return Edited(edit, {}, 0, is_repeated=True)
        pairs = [] if edit.rows is None else _read(con, _sql(edit.rows))
        after, changed = dict(before), {}
        outputs = {name.lower(): made.lower() for name, made in tables.analyse(new).outputs}
        for pair in pairs:
            row = {name: pair[made] for name, made in outputs.items()}
            at = _pick(row, key)
            assert pair[HAS_BEFORE] == (at in before), "a pair has a row before if and only if the table has it"
            if pair[HAS_BEFORE]:
                assert {name: pair[name_before(name)] for name in before[at]} == before[at]
                del after[at]
            assert at not in changed
            changed[at] = row if pair[HAS_AFTER] else {}
            if pair[HAS_AFTER]:
                after[at] = row
        names = list(outputs)
        kept = [row for at, row in before.items() if at not in changed]
        assert all(set(names) <= set(row) for row in kept), "a row without a pair has all columns of the new query"
        result = Counter(tuple(row[name] for name in names) for row in after.values())
        assert result == Counter(tuple(row[name] for name in names) for row in wanted), (old, new)
        return Edited(edit, changed, len(kept))


def _show_images(con: duckdb.DuckDBPyConnection, edit: Edit) -> None:
    for scan in (scan for tree in edit.trees for scan in list_scans(tree)):
        view = name_input(scan.source, scan.image)
        con.execute(f'create or replace view "{view}" as select * from "{scan.source.name}"')


def _sql(tree: Any) -> str:
    return in_duckdb(render_sql(tree))


def _read(con: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    cursor = con.execute(sql)
    names = [part[0].lower() for part in cursor.description]
    return [dict(zip(names, map(_to_hashable, row), strict=True)) for row in cursor.fetchall()]


def _to_hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, list | dict) else value


def _pick(row: dict[str, Any], key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)
