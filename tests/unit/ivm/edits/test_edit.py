"""An edited query is derived from the table of the old one: exact wherever that is planned, and planned where it pays."""

# ruff: noqa: E501

from __future__ import annotations

from random import Random

import pytest

from arctic_runtime.ivm.edits.refused import NotEdited
from tests.unit.ivm.edits.edited import edit_table, plan, random_sources

ID = ("id",)
JOIN = "select o.id, o.customer, c.name from orders o join customers c on c.customer = o.customer"
SUMS = "select customer, sum(amount) as total from orders group by customer"
PARTS = "select id, 'order' as kind from orders union all select id, 'heap' as kind from heap"

OWN_ROWS = (
    ("select id, amount from orders", "select id, amount, amount * 2 as twice from orders"),
    ("select id, amount, state from orders", "select id, upper(state) as state from orders"),
    ("select id, amount as a, state as b from orders", "select id, state as a, amount as b from orders"),
    ("select id, amount * 2 as twice from orders", "select id, amount * 2 as twice, 1 + amount * 2 as more from orders"),
    ("select id, amount from orders", "select id, amount from orders where amount > 2"),
    ("select id, amount from orders where amount > 2", "select id, amount from orders where amount > 3"),
    ("select id, amount from orders where state = 'paid'", "select id, amount from orders where state = 'paid' and id > 3"),
    ("select id, day from orders where day > '2023-01-01'", "select id, day from orders where day > '2024-01-15'"),
    ("select id, state from orders where state in ('paid', 'open')", "select id, state from orders where state = 'paid'"),
    ("select id, 10 / amount as share from orders where amount <> 0", "select id, 10 / amount as share, 1 as one from orders where amount <> 0"),
    (JOIN, "select o.id, o.customer, c.name, upper(c.name) as big from customers c join orders o on o.customer = c.customer"),
    (JOIN, f"{JOIN} where c.name = 'ann'"),
    (JOIN, "select id, customer, name from (select * from orders where customer > 1) join customers using (customer)"),
    (PARTS, "select id, 'heap' as kind from heap"),
    (PARTS, f"select * from ({PARTS}) where id > 3"),
    ("select o.id, o.amount from orders o left join customers c on o.customer = c.customer", "select id, amount from orders"),
)  # fmt: skip
"""Edits for which nothing but the table is read."""

ALIKE = (
    ("select id, amount from orders where amount > 1 or state = 'paid'", "select id, cast(amount as int) as amount from orders where state = 'paid' or amount > 1"),
    ("select customer as id, count(*) as n from orders where amount > 1 group by customer", "select o.customer as id, count(*) as n from orders o where 1 < amount group by 1"),
    ("select id, amount from orders where amount > 2", "select o.id as id, /* all */ amount from orders o where (2 < o.amount)"),
    ("with a as (select * from orders), b as (select * from a where id > 1) select id, state from b", "select id, state from orders where id > 1"),
    (JOIN, "with cust as (select customer, name from customers) select id, o.customer, name from cust, orders o where cust.customer = o.customer"),
    (PARTS, "select id, 'heap' as kind from heap union all select x.id, 'order' as kind from orders x"),
    ("select id, customer from orders where exists (select 1 from lines l where l.id = orders.id)", "select id, customer from orders o left semi join lines on lines.id = o.id"),
)  # fmt: skip
"""Edits that change no row."""

SOURCES = (
    (JOIN, "select o.id, o.customer, c.name, c.city from orders o join customers c on c.customer = o.customer", {"customers"}),
    (JOIN, "select o.id, o.customer, c.name, o.amount from orders o join customers c on c.customer = o.customer", {"orders"}),
    ("select id, o.customer, name from orders o left join customers c on c.customer = o.customer", "select id, o.customer, name, city from orders o left join customers c on c.customer = o.customer", {"customers"}),
    ("select id, customer from orders", JOIN, {"customers"}),
    ("select id, customer from orders", "select id, o.customer, city from orders o left join customers c on c.customer = o.customer", {"customers"}),
    (JOIN, "select o.id, o.customer, c.name, t.title from orders o join customers c on c.customer = o.customer left join countries t on t.country = c.country", {"customers", "countries"}),
    ("select id, customer from orders", "select id, customer from orders o where exists (select 1 from lines l where l.id = o.id)", {"lines"}),
    ("select id, customer from orders", "select id, customer from orders o where not exists (select 1 from lines l where l.id = o.id)", {"lines"}),
    ("select id, customer from orders", "select id, customer from orders where id in (select id from lines where price > 2)", {"lines"}),
    (
        JOIN,
        "select id, customer from orders",
        {"orders", "customers"},
    ),
    (
        "select o.id, o.amount from orders o join customers c on c.customer = o.customer",
        "select o.id, o.amount, c.city from orders o join customers c on c.customer = o.customer",
        {"orders", "customers"},
    ),
    ("select id, customer from orders where id in (select id from lines)", "select id, customer from orders", {"orders", "lines"}),
    (JOIN, "select id, customer from orders", {"orders", "customers"}),
    ("select o.id, o.amount from orders o join customers c on c.customer = o.customer", "select o.id, o.amount, c.city from orders o join customers c on c.customer = o.customer", {"orders", "customers"}),
    ("select id, amount from orders where amount > 3", "select id, amount from orders where amount > 2", {"orders"}),
    ("select id, amount from orders where state = 'paid'", "select id, amount from orders", {"orders"}),
    ("select id, amount from orders where state = 'paid' and amount > 2", "select id, amount from orders where amount < 4", {"orders"}),
    ("select id, amount from heap where customer > 1", "select id, amount from heap", {"heap"}),
    ("select id, 'order' as kind from orders", PARTS, {"heap"}),
    ("select id, amount from orders where amount > 1", "select id, upper(name) as n, amount + 1 as amount from orders o join customers c on o.customer = c.customer where amount > 1 and amount < 4", {"customers", "orders"}),
)  # fmt: skip
"""Edits for which sources are read, with the sources."""

GROUPS = (
    (SUMS, f"{SUMS} having sum(amount) > 3"),
    (SUMS, "select customer, sum(amount) as total, sum(amount) * 2 as twice from orders where customer > 2 group by customer"),
    ("select customer, sum(amount) as total from orders where customer > 2 group by customer", SUMS),
    (SUMS, f"with t as ({SUMS}) select t.*, c.name from t left join customers c on c.customer = t.customer"),
    ("select customer, count(*) as n from orders group by customer having count(*) > 1", "select customer, count(*) as n from orders group by customer having count(*) > 2"),
    ("select distinct customer, state from orders", "select distinct customer, state from orders where customer > 1"),
)  # fmt: skip
"""Edits of groups, whose key is the customer."""

REFUSED = (
    (SUMS, "select customer, sum(amount) as total from orders where amount > 1 group by customer", "a subquery, a group"),
    (SUMS, "select customer, sum(amount) as total, count(*) as n from orders group by customer", "the column n reads"),
    (SUMS, "select customer, total from (select customer, sum(amount) as total from heap group by customer)", "no longer reads lake.raw.orders"),
    ("select customer, name from customers", "select country as customer, name from customers", "the key column customer"),
    ("select customer, name from customers", "select c.customer, name from customers c join orders o on o.customer = c.customer", "several partners in the join with lake.raw.orders"),
    ("select customer, name from customers c", "select c.customer, name from customers c where exists (select 1 from lines l where l.id > c.customer)", "more than equalities"),
    ("select customer, name from customers", "select customer, name from customers where city = 'a' union all select id, state from orders", "a subquery, a group"),
)  # fmt: skip


def edit_random_tables(old: str, new: str, key: tuple[str, ...] = ID) -> int:
    """Edits tables of random rows, and counts the rows that stayed out of the pairs."""
    return sum(edit_table(old, new, random_sources(Random(seed)), key).kept for seed in range(4))


@pytest.mark.parametrize(("old", "new"), OWN_ROWS)
def test_the_own_rows_are_enough(old: str, new: str) -> None:
    edit = plan(old, new, ID)
    assert edit.sources == frozenset()
    edit_random_tables(old, new)


@pytest.mark.parametrize(("old", "new"), ALIKE)
def test_a_query_written_in_another_way_changes_nothing(old: str, new: str) -> None:
    edit = plan(old, new, ID)
    assert (edit.rows, edit.differences) == (None, ())
    assert edit_random_tables(old, new) > 0


@pytest.mark.parametrize(("old", "new", "sources"), SOURCES)
def test_only_what_the_table_lacks_is_read_from_sources(old: str, new: str, sources: set[str]) -> None:
    edit = plan(old, new, ID)
    assert {source.name for source in edit.sources} == sources
    edit_random_tables(old, new)


@pytest.mark.parametrize(("old", "new"), GROUPS)
def test_groups_are_filtered_and_joined_as_rows(old: str, new: str) -> None:
    edit_random_tables(old, new, ("customer", "state") if "state" in new else ("customer",))


@pytest.mark.parametrize(("old", "new", "because"), REFUSED)
def test_an_edit_that_no_rule_covers_is_refused_by_name(old: str, new: str, because: str) -> None:
    with pytest.raises(NotEdited, match=because):
        plan(old, new, ("customer",))


@pytest.mark.parametrize(
    ("old", "new", "differences"),
    [
        ("select id from orders where amount > 3", "select id from orders where amount > 2", ("where amount > 2", "no longer where amount > 3")),
        ("select id, state from orders", "select id from orders where id > 3", ("where id > 3", "no column state")),
        ("select id, customer from orders", JOIN, ("joined with lake.raw.customers", "column name")),
        (JOIN, "select id, customer from orders", ("no longer joined with lake.raw.customers", "no column name")),
        (PARTS, "select id, 'heap' as kind from heap", ("parts of a union were removed",)),
    ],
)  # fmt: skip
def test_the_differences_of_an_edit_are_named(old: str, new: str, differences: tuple[str, ...]) -> None:
    assert plan(old, new, ID).differences == differences


def test_rows_that_stay_are_in_no_pair_if_only_rows_go() -> None:
    sources = {**random_sources(Random(1)), "orders": [(i, None, i, "paid", None) for i in range(100)]}
    edited = edit_table("select id, amount from orders", "select id, amount from orders where amount < 90", sources)
    assert (edited.kept, len(edited.changed)) == (90, 10)


def test_a_narrower_bound_reads_no_source() -> None:
    assert plan("select id from orders where amount > 1", "select id from orders where amount > 1 and id < 3", ID).sources == frozenset()  # fmt: skip


def test_a_row_that_the_edit_drops_is_not_computed() -> None:
    """The cast would be an error."""
    sources = {**random_sources(Random(1)), "orders": [(1, None, 0, "paid", None), (2, None, 5, "7", None)]}
    new = "select id, state, cast(state as int) as n from orders where state = '7'"
    edited = edit_table("select id, state from orders", new, sources)
    assert edited.changed == {(1,): {}, (2,): {"id": 2, "state": "7", "n": 7}}


def test_rows_of_a_new_part_may_not_have_keys_of_others() -> None:
    sources = {**random_sources(Random(1)), "orders": [(1, None, 0, None, None)], "heap": [(1, 1, 1)]}
    edited = edit_table("select id, 'order' as kind from orders", PARTS, sources)
    assert edited.edit.repeated is not None
    assert edited.changed == {}
