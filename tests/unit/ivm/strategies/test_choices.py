"""Values with several right answers: nobody asks what they were, and what follows from one is computed together."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Projection, list_scans, walk_tree
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.strategies.maintain import AffectedKeys, Facts, plan_maintenance
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName

ITEMS = tuple(map(Column, ("id", "g", "s", "v", "x"), ("int", "string", "string", "int", "double")))
RELATIONS = {
    "lake.raw.keyed": Relation(ITEMS, key=("id",)),
    "lake.raw.plain": Relation(ITEMS),
    "lake.raw.dim": Relation((Column("g", "string"), Column("name", "string")), key=("g",)),
}
CHOSEN = "(select g, first(s) as f from keyed group by g)"
NUMBERED = "(select *, row_number() over (partition by g order by v) as n from keyed)"
AVERAGED = "(select *, avg(x) over (partition by g) as m from keyed)"


def plan(sql: str, key: str, *changed: str) -> AffectedKeys:
    query = analyse_query(sql, RELATIONS, {}, "lake", "raw")
    names = frozenset(TableName("lake", "raw", name) for name in changed)
    made = plan_maintenance(query.tree, (dict(query.outputs)[key],), names, Facts(types=query.types))
    assert isinstance(made, AffectedKeys)
    return made


FOLLOWED = {
    "shown for the key that it is chosen for": ("select g, f from {chosen}", "g", "keyed"),
    "the best of a unique order": (
        "select s, count(*) as n from (select g, max_by(s, id) as s from keyed group by g) group by s",
        "s",
        "keyed",
    ),
    "the last row of each key": ("select g, s from {numbered} where n = 1", "g", "keyed"),
    "the last row, by another key, where nothing else changes": (
        "select id, g from {numbered} where n = 1",
        "id",
        "keyed",
    ),
    "the last row of each key, joined to what changes": (
        "select k.g, s, name from {numbered} k join dim d on d.g = k.g where n = 1",
        "g",
        "dim",
    ),
    "groups of no more than what it is chosen for": (
        "select g, count(*) as n from (select g, s, first(v) as f from keyed group by g, s) where f > 1 group by g",
        "g",
        "keyed",
    ),
    "places in a table without a key": (
        "select id, row_number() over (partition by g order by v) as n from plain",
        "id",
        "plain",
    ),
    "last digits that are shown": ("select k.id, m, name from {averaged} k join dim d on d.g = k.g", "id", "dim"),
    "last digits that tell groups apart by their key": (
        "select g, sum(x) as x from keyed group by g having sum(x) > 3",
        "g",
        "keyed",
    ),
    "beside another branch": ("select g, f from {chosen} union all select g, name from dim", "g", "dim"),
    "beside a merged key": ("select g, f from {chosen} full join dim using (g)", "g", "dim"),
}

REFUSED = {
    "groups by it": ("select f, count(*) as n from {chosen} group by f", "f", "keyed"),
    "groups of the last rows": ("select s, sum(v) as v from {numbered} where n = 1 group by s", "s", "keyed"),
    "each once": ("select distinct f from {chosen}", "f", "keyed"),
    "a set of it": ("select f as g from {chosen} intersect select g from dim", "g", "keyed"),
    "partitions by it": (
        "select g, rank() over (partition by f order by g) as place from {chosen}",
        "g",
        "keyed",
    ),
    "the last row, by another key that can't be told from": (
        "select id, g from (select *, row_number() over (partition by g order by v) as n from plain) where n = 1",
        "id",
        "plain",
    ),
    "places beside what changes": ("select k.id, n, name from {numbered} k join dim d on d.g = k.g", "id", "dim"),
    "a join by it, where the other side changes": (
        "select k.g, name from {chosen} k join dim d on d.name = k.f",
        "g",
        "dim",
    ),
    "a join by it, for another key": ("select d.g, f from dim d join {chosen} k on k.f = d.name", "g", "keyed"),
    "asked for by it": ("select g from dim where name in (select f from {chosen})", "g", "keyed"),
    "last digits that tell rows apart": (
        "select k.id from {averaged} k join dim d on d.g = k.g where m > 3",
        "id",
        "dim",
    ),
    "last digits that all rows are compared to": (
        "select id from keyed where x > (select avg(x) from plain)",
        "id",
        "keyed",
    ),
    "rows made of it": (
        "select one as g, count(*) as n from {chosen} lateral view explode(split(f, ',')) t as one group by one",
        "g",
        "keyed",
    ),
}


def write_query(sql: str) -> str:
    return sql.format(chosen=CHOSEN, numbered=NUMBERED, averaged=AVERAGED)


@pytest.mark.parametrize(("sql", "key", "changed"), FOLLOWED.values(), ids=FOLLOWED)
def test_what_follows_from_one_choice_is_computed_together(sql: str, key: str, changed: str) -> None:
    assert list_scans(plan(write_query(sql), key, changed).affected)


@pytest.mark.parametrize(("sql", "key", "changed"), REFUSED.values(), ids=REFUSED)
def test_an_unrepeatable_choice_is_refused(sql: str, key: str, changed: str) -> None:
    with pytest.raises(NotMaintained) as refused:
        plan(write_query(sql), key, changed)
    assert refused.value.reason == "NOT_REPEATABLE"


ORDERED = {
    "a list": "select g, collect_list(s) as l from (select * from keyed order by v) group by g",
    "a named query of a named query": "with a as (select * from keyed sort by v), b as (select * from a) "
    "select g, first(s) as l from b group by g",
    "places": "select g, row_number() over (partition by g order by v) as l from (select * from keyed order by id)",
    "a running sum": "select g, sum(x) over (partition by g order by v rows unbounded preceding) as l "
    "from (select * from keyed cluster by id)",
    "under a join": "select d.g, max_by(k.s, k.v) as l from dim d "
    "join (select * from keyed distribute by g sort by id) k on k.g = d.g group by d.g",
}


@pytest.mark.parametrize("sql", ORDERED.values(), ids=ORDERED)
def test_rows_gathered_in_an_order_of_a_subquery_are_not_followed(sql: str) -> None:
    with pytest.raises(NotMaintained, match="depends on the order of a subquery") as refused:
        analyse_query(sql, RELATIONS, {}, "lake", "raw")
    assert refused.value.reason == "NOT_REPEATABLE"


def test_an_order_does_not_matter_to_counts_nor_behind_them() -> None:
    sql = "select g, count(*) as n, max(x) as x from (select * from keyed order by v) group by g order by n"
    assert analyse_query(sql, RELATIONS, {}, "lake", "raw").outputs


def test_a_view_that_sorts_is_looked_through() -> None:
    views = {"lake.raw.sorted": "select * from keyed order by v"}
    with pytest.raises(NotMaintained, match="depends on the order of a subquery"):
        analyse_query("select g, last(s) as l from sorted group by g", RELATIONS, views, "lake", "raw")


GUARDED = {
    "a cast of rows with a place and a pattern": (
        "select cast(s as int) as g, count(*) as n from (select s, row_number() over (partition by g order by id) as n "
        "from keyed) where n = 1 and s rlike '^[0-9]+$' group by 1",
        "keyed",
    ),
    "a cast of rows with a partner": (
        "select cast(k.s as int) as g, count(*) as n from keyed k join dim d on d.g = k.g group by 1",
        "keyed",
    ),
    "an explosion of rows without another partner": (
        "select e as g, count(*) as n from "
        "(select * from keyed k where not exists (select 1 from dim d where d.g = k.g)) "
        "lateral view explode(sequence(1, v)) t as e group by e",
        "keyed",
    ),
}


@pytest.mark.parametrize(("sql", "changed"), GUARDED.values(), ids=GUARDED)
def test_what_can_fail_is_computed_of_rows_alone_that_the_query_has(sql: str, changed: str) -> None:
    """What it is computed of is looked for among rows that were or are there, so these are read."""
    images = {scan.image for scan in list_scans(plan(sql, "g", changed).affected)}
    assert {"old", "new"} <= images


def test_what_cannot_fail_is_computed_of_changes_alone() -> None:
    sql = "select upper(k.s) as g, count(*) as n from keyed k join dim d on d.g = k.g group by 1"
    affected = plan(sql, "g", "keyed").affected
    assert {scan.image for scan in list_scans(affected)} == {"delta"}
    assert any(isinstance(node, Projection) for node in walk_tree(affected))


COLLATED = {
    "a key of groups": "select min(g) as g, count(*) as n from keyed group by g collate utf8_lcase",
    "distinct texts": "select distinct collate(g, 'utf8_lcase') as g from keyed",
    "a partition": "select id, count(*) over (partition by g collate utf8_lcase) as n from keyed",
    "an extreme": "select g, max(s collate utf8_lcase) as s from keyed group by g",
    "a column of a table": "select id, g from collated",
}


@pytest.mark.parametrize("sql", COLLATED.values(), ids=COLLATED)
def test_a_collation_outside_of_conditions_is_not_followed(sql: str) -> None:
    collated = Relation((Column("id", "int"), Column("g", "string collate UTF8_LCASE")), key=("id",))
    with pytest.raises(NotMaintained, match="collation") as refused:
        analyse_query(sql, {**RELATIONS, "lake.raw.collated": collated}, {}, "lake", "raw")
    assert refused.value.reason == "UNSUPPORTED"


def test_a_collation_in_a_condition_is_followed() -> None:
    sql = "select k.id from keyed k join dim d on d.g collate utf8_lcase = k.g where k.s collate utf8_lcase = 'a'"
    assert analyse_query(sql, RELATIONS, {}, "lake", "raw").outputs
