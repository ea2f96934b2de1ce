"""Tests on changed rows find the rows that the test of all rows finds, or look at all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.row_tests import RowTest, find_row_test
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import REPAIRED
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.row_tests import find_changes_since, hash_definition, replace_relation
from arctic_runtime.thresholds import SHIPPED
from tests.unit.ivm import duck

ORDERS, CUSTOMERS = TableName("lake", "raw", "orders"), TableName("lake", "raw", "customers")
COLUMNS = tuple(Column(*pair) for pair in (("id", "int"), ("customer", "int"), ("amount", "int"), ("state", "string")))
RELATIONS = {
    ORDERS: Relation(COLUMNS, ("id",)),
    CUSTOMERS: Relation((Column("id", "int"), Column("city", "string")), ("id",)),
}
SALES, BUYERS = "`lake`.`raw`.`orders`", "`lake`.`raw`.`customers`"

NOT_NULL = f"select amount\nfrom {SALES}\nwhere amount is null"
ACCEPTED = """with all_values as (
    select state as value_field, count(*) as n_records
    from {orders}
    group by state
)
select * from all_values where value_field not in ('paid', 'open')"""
RELATIONSHIPS = """with child as (
    select customer as from_field from {orders} where customer is not null
),
parent as (
    select id as to_field from {customers}
)
select from_field from child left join parent on child.from_field = parent.to_field where parent.to_field is null"""
UNIQUE = """select id as unique_field, count(*) as n_records
from {orders} where id is not null group by id having count(*) > 1"""

ROW_WISE = {
    "not_null": NOT_NULL,
    "not_null of some rows": f"select amount from (select * from {SALES} where state <> 'open') dbt_subquery "
    "where amount is null",
    "accepted_values": ACCEPTED.format(orders=SALES),
    "accepted_values of some rows": ACCEPTED.format(orders=f"(select * from {SALES} where amount > 1) dbt_subquery"),
    "expression": f"select 1 from {SALES} where not(amount >= 0 and customer + amount < 9)",
    "expression of a column": f"select * from {SALES} where not(coalesce(amount, 0) between 0 and 5)",
    "relationships": RELATIONSHIPS.format(orders=SALES, customers=BUYERS),
    "relationships of some rows": RELATIONSHIPS.format(
        orders=f"(select * from {SALES} where amount > 1) dbt_subquery", customers=BUYERS
    ),
    "unique": UNIQUE.format(orders=SALES),
    "unique of some rows": UNIQUE.format(orders=f"(select * from {SALES} where amount > 1) dbt_subquery"),
    "unique combination": f"with e as (select id, state from {SALES} group by id, state having count(*) > 1) "
    "select * from e",
    "unique combination, keys last": f"select state, id from {SALES} group by state, id having count(*) > 1",
}
OTHERS = {
    "no key": f"select state, count(*) as n from {SALES} group by state having count(*) > 1",
    "count": f"select count(*) as n from {SALES} having count(*) > 3",
    "window": f"select * from (select id, lag(id) over (order by id) as l from {SALES}) where l is null",
    "limit": f"select id from {SALES} where amount is null limit 1",
    "clock": f"select id from {SALES} where state < current_date",
    "function of users": f"select id from {SALES} where my_check(amount)",
    "subquery": f"select id from {SALES} where amount > (select avg(amount) from {SALES})",
    "exists": f"select id from {SALES} o where exists (select 1 from {BUYERS} c where c.id = o.customer)",
    "inner join": f"select o.id from {SALES} o join {BUYERS} c on o.customer = c.id where o.amount is null",
    "other than the key": f"select o.id from {SALES} o left join {BUYERS} c on o.state = c.city where c.city is null",
    "filtered parent": f"select o.id from {SALES} o left join (select id from {BUYERS} where city = 'x') c "
    "on o.customer = c.id where c.id is null",
    "range": f"select o.id from {SALES} o left join {BUYERS} c on o.customer < c.id where c.id is null",
    "itself": f"select o.id from {SALES} o left join {SALES} p on o.customer = p.id where p.id is null",
    "computed reference": f"select o.id from (select id, customer + 1 as c from {SALES}) o left join {BUYERS} c "
    "on o.c = c.id where c.id is null",
    "union": f"select id from {SALES} where amount is null union all select id from {BUYERS}",
    "unknown table": "select id from `lake`.`raw`.`others` where amount is null",
    "no query": "delete from t",
}


@pytest.mark.parametrize("name", ROW_WISE)
def test_row_wise(name: str) -> None:
    test = find_row_test(ROW_WISE[name], RELATIONS)
    assert test.table == ORDERS
    assert test.looks == ("stored" if name.startswith("unique") else "newest")
    assert (test.parent, test.column) == ((CUSTOMERS, "customer") if name.startswith("rel") else (None, ""))


@pytest.mark.parametrize("name", OTHERS)
def test_all_rows(name: str) -> None:
    with pytest.raises(NotMaintained):
        find_row_test(OTHERS[name], RELATIONS)


def test_a_table_without_a_key() -> None:
    with pytest.raises(NotMaintained, match="no primary key"):
        find_row_test(NOT_NULL, {ORDERS: Relation(COLUMNS)})
    with pytest.raises(NotMaintained, match="reads no arctic table"):
        find_row_test(NOT_NULL, {})


Order = tuple[int, int | None, int | None, str | None]
_values = st.tuples(
    st.none() | st.integers(0, 3), st.none() | st.integers(-1, 5), st.sampled_from(["paid", "open", "lost", None])
)
_good = st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from(["paid", "open"]))
_orders = st.dictionaries(st.integers(0, 7), _good | _good | _values, max_size=8)
_customers = st.dictionaries(st.integers(0, 3), st.sampled_from(["x", "y"]), min_size=2, max_size=4)
_duplicates = st.lists(st.tuples(st.integers(0, 7), _values), max_size=2)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(sorted(ROW_WISE)))
def test_changed_rows_are_enough(data: st.DataObject, name: str) -> None:
    """If a test passed, its later failing rows are those of the test on changed rows, however the tables changed."""
    sql = ROW_WISE[name]
    before, customers = data.draw(_orders), data.draw(_customers)
    con = duck.connect()
    load(con, before.items(), customers)
    assume(not duck.rows(con, sql))
    deleted, updated = data.draw(st.sets(st.integers(0, 7))), data.draw(_orders)
    after = {key: row for key, row in {**before, **updated}.items() if key not in deleted}
    # A broken key, which only the test of uniqueness may find.
    copies = data.draw(_duplicates) if name.startswith("unique") else []
    lost = data.draw(st.sets(st.integers(0, 3)))
    later = {key: city for key, city in {**customers, **data.draw(_customers)}.items() if key not in lost}
    changed = {*deleted, *updated, *(key for key, _ in copies), *data.draw(st.sets(st.integers(0, 7)))}
    stored = [*after.items(), *copies]
    load(con, stored, later)
    looked_at = load_tested(con, find_row_test(sql, RELATIONS), stored, later, changed, lost - set(later))
    restricted = sql
    for table in looked_at:
        restricted = replace_relation(restricted, quote(table), f"`tested {table.name}`")
    assert find_failing(duck.rows(con, restricted), name) == find_failing(duck.rows(con, sql), name)


def find_failing(rows: Counter[tuple[Any, ...]], name: str) -> Counter[tuple[Any, ...]]:
    """The rows of a test; without the number of rows of a value, which is that of the rows that were looked at."""
    return Counter(row[:1] for row in rows.elements()) if name.startswith("accepted") else rows


def quote(table: TableName) -> str:
    return ".".join(f"`{part}`" for part in table.parts)


def load(con: Any, orders: Iterable[tuple[int, Sequence[Any]]], customers: Mapping[int, str]) -> None:
    duck.load(con, ORDERS, COLUMNS, [(key, *row) for key, row in orders])
    duck.load(con, CUSTOMERS, RELATIONS[CUSTOMERS].columns, list(customers.items()))


def load_tested(
    con: Any,
    test: RowTest,
    orders: Sequence[tuple[int, Sequence[Any]]],
    customers: Mapping[int, str],
    changed: set[int],
    lost: set[int],
) -> tuple[TableName, ...]:
    """Makes the tables with the rows that a test looks at, as `select_tested_rows` does in Spark."""
    is_orphan = test.parent is not None
    own = [(key, *row) for key, row in orders if key in changed or (is_orphan and row[0] in lost)]
    duck.load(con, "tested orders", COLUMNS, own)
    partners = [item for item in customers.items() if item[0] in {row[1] for row in own}]
    duck.load(con, "tested customers", RELATIONS[CUSTOMERS].columns, partners)
    return test.tables


def test_a_name_that_is_written_twice() -> None:
    with pytest.raises(NotMaintained, match="2 times"):
        replace_relation(f"select '{SALES}' from {SALES}", SALES, "x")


def test_definitions_differ() -> None:
    tables = [("lake.raw.orders", "('id',)", "1 id int")]
    hashes = {
        hash_definition(NOT_NULL, tables, "s"),
        hash_definition(NOT_NULL + " ", tables, "s"),
        hash_definition(NOT_NULL, tables, "other settings"),
        hash_definition(NOT_NULL, [(*tables[0][:2], "2 id int")], "s"),
        hash_definition(NOT_NULL, [*tables, *tables], "s"),
    }
    assert len(hashes) == 5


def build_state(*rows: int, **changes: Any) -> SourceState:
    commits = tuple(
        Commit(Version("u", 100 + i, i + 1), 99 + i if i else None, "append", count, 0, {}, 0)
        for i, count in enumerate(rows)
    )
    state = SourceState(ORDERS, "changes", commits[-1].version, commits, COLUMNS, 3, rows=1_000_000, key=("id",))
    return replace(state, **changes)


def test_changes_since_a_pass() -> None:
    state = build_state(5, 2, 3)
    for commit in state.commits:
        window = find_changes_since(state, commit.version, SHIPPED.incremental)
        assert window == Window(str(ORDERS), commit.version, state.version)
    assert find_changes_since(state, state.version, SHIPPED.incremental).is_empty


def refuse(state: SourceState, since: Version = Version("u", 100, 1)) -> NotMaintained:  # noqa: B008
    with pytest.raises(NotMaintained) as refused:
        find_changes_since(state, since, SHIPPED.incremental)
    return refused.value


def test_changes_that_can_not_be_followed() -> None:
    state = build_state(5, 2, 3)
    assert refuse(state, Version("another", 100, 1)).reason == "SOURCE_REPLACED"
    assert refuse(state, Version("u", 7, 0)).reason == "SOURCE_REPLACED"
    expired = replace(state, commits=state.commits[1:])
    assert refuse(expired).reason == "UPSTREAM_EXPIRED"
    rewritten = [replace(commit, operation="overwrite") for commit in state.commits]
    assert refuse(replace(state, commits=tuple(rewritten))).reason == "SOURCE_REPLACED"
    repaired = [replace(commit, summary={REPAIRED: "key"}) for commit in state.commits]
    assert refuse(replace(state, commits=tuple(repaired))).reason == "SOURCE_REPAIRED"
    restored = replace(state, version=state.commits[1].version)
    assert refuse(restored, state.commits[2].version).reason == "UPSTREAM_EXPIRED"
    assert refuse(replace(state, trimmed=2)).reason == "UPSTREAM_EXPIRED"
    assert refuse(build_state(5, 600_000)).reason == "COST"
