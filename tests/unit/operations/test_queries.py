"""Queries of agents and of clients of a service: limits of rows, bytes and time, the audit log, and masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, MapType, NestedField, StringType

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName
from arctic_runtime.operations.queries import QueryAnswer, answer_limited_query
from arctic_runtime.query.relations import RelationLookup
from arctic_runtime.thresholds import SHIPPED

FIELDS = (
    NestedField(1, "id", LongType()),
    NestedField(2, "note", StringType()),
    NestedField(3, "parts", MapType(4, StringType(), 5, LongType())),
)
ORDERS = TableName("lake", "dwd", "orders")
Ask = Callable[..., QueryAnswer]


@pytest.fixture
def lookup(tmp_path: Path, writing: Any) -> Callable[..., RelationLookup]:
    """Builds the lookup of a project with the table `orders`, of ten rows; the project does not have `salaries`."""
    warehouse = writing.warehouse(tmp_path)
    for name in ("orders", "salaries"):
        table = warehouse.create(name, FIELDS)
        rows = [{"id": i, "note": f"note {i}", "parts": [("a", i)]} for i in range(10)]
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    warehouse.create_view("notes", "select id, note from salaries")

    def build(masks: Mapping[str, bool] | None = None, **limits: Any) -> RelationLookup:
        queries = dataclasses.replace(SHIPPED.queries, **limits)
        profile = dataclasses.replace(warehouse.profile, thresholds=dataclasses.replace(SHIPPED, queries=queries))
        known: dict[TableName, Mapping[str, bool]] = {ORDERS: masks or {}, ORDERS.with_name("notes"): {}}
        names = {"orders": ORDERS, "notes": ORDERS.with_name("notes")}
        return RelationLookup(CatalogReader(profile), "lake", names, known, lambda own: Mask(b"k", own))

    return build


@pytest.fixture
def ask(lookup: Callable[..., RelationLookup]) -> Ask:
    def answer(query: str, limit: int | None = None, **limits: Any) -> QueryAnswer:
        return answer_limited_query(query, lookup(**limits), limit, lambda _: None)

    return answer


def test_an_answer_has_the_types_of_spark_and_values_as_json_lines_have_them(ask: Ask) -> None:
    answer = ask("select id, note, parts, id / 4 part from orders where id = 3")
    assert answer.types == ("bigint", "string", "map<string,bigint>", "double")
    assert list(answer.iterate_rows()) == [(3, "note 3", {"a": 3}, 0.75)]
    assert not answer.is_cut


@pytest.mark.parametrize(
    ("limit", "rows", "is_cut"), [(None, 10, False), (10, 10, False), (9, 9, True), (0, 0, True), (10**30, 10, False)]
)
def test_a_limit_cuts_an_answer_and_the_answer_says_so(ask: Ask, limit: int | None, rows: int, is_cut: bool) -> None:
    answer = ask("select id from orders", limit)
    assert (len(list(answer.iterate_rows())), answer.is_cut) == (rows, is_cut)


@pytest.mark.parametrize("limit", [None, 9, 10])
def test_an_answer_above_the_limits_of_a_service_is_refused_and_never_silently_cut(ask: Ask, limit: int | None) -> None:
    with pytest.raises(ConfigError, match="more than 8 rows") as refused:
        ask("select id from orders", limit, rows=8)
    assert "limit" in str(refused.value.fix)
    assert ask("select id from orders", 8, rows=8).is_cut
    assert not ask("select id from orders limit 8", limit, rows=8).is_cut
    with pytest.raises(ConfigError, match="more than 40 bytes"):
        ask("select note from orders", limit, answer_bytes=40)


ENDLESS = "select sum(a.id * b.id * c.id * d.id) from {0} a cross join {0} b cross join {0} c cross join {0} d"
MANY = "(select a.id from orders a cross join orders b cross join orders c)"


@pytest.mark.parametrize("query", [ENDLESS.format(MANY), ENDLESS.format(MANY).replace("sum(", "(")])
def test_a_query_that_takes_too_long_is_given_up(ask: Ask, query: str) -> None:
    with pytest.raises(ConfigError, match=r"given up after 0\.2 seconds"):
        ask(query, seconds=0.2, rows=10**12, answer_bytes=10**15)


def test_a_query_that_needs_too_much_memory_and_disk_is_refused_by_what_it_needs(ask: Ask) -> None:
    texts = "concat(a.note, b.note, c.note, d.note, e.note, f.note)"
    others = " ".join(f"cross join orders {name}" for name in "bcdef")
    with pytest.raises(ConfigError, match="needs more memory, or space on disk") as refused:
        ask(f"select count(distinct {texts}) from orders a {others}", memory_mb=20, spilled_mb=1)
    assert "PRAGMA" not in str(refused.value)


def test_the_audit_log_names_the_tables_of_each_answer_and_none_of_a_refused_query(
    lookup: Callable[..., RelationLookup],
) -> None:
    entries: list[Mapping[str, Any]] = []
    answer_limited_query("select a.id from dwd.orders a join notes b on a.id = b.id", lookup(), 1, entries.append)
    assert entries == [{"operation": "sql", "tables": [f"lake.dwd.{name}" for name in ("notes", "orders", "salaries")]}]
    with pytest.raises(ConfigError):
        answer_limited_query("select java(note) from orders", lookup(), 1, entries.append)
    assert len(entries) == 1

    def fail(_: Mapping[str, Any]) -> None:
        raise ConfigError("the audit log can't be written")

    with pytest.raises(ConfigError, match="audit log"):
        answer_limited_query("select id from orders", lookup(), 1, fail)


@pytest.mark.parametrize(
    "named", ["dwd.salaries", "lake.dwd.salaries", "DWD.Salaries", "dwd.nothing", "(select * from dwd.salaries)"]
)
def test_a_lookup_that_stays_in_its_project_reads_no_other_table_than_by_its_views(
    lookup: Callable[..., RelationLookup], named: str
) -> None:
    def answer(query: str) -> QueryAnswer:
        return answer_limited_query(query, dataclasses.replace(lookup(), stays_in_project=True), 1, lambda _: None)

    with pytest.raises(ConfigError, match="is no table of the project"):
        answer(f"select * from {named}")
    assert list(answer("select id, note from notes where id = 1").iterate_rows()) == [(1, "note 1")]
    assert list(answer("select id from lake.dwd.orders where id = 1").iterate_rows()) == [(1,)]
