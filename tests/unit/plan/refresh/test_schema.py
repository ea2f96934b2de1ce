"""Columns: what a query's columns do to a table, and the queries that can't make one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column, SchemaChange
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.plan.refresh.schema import check_query, plan_schema, plan_sequence, to_stored_type
from arctic_runtime.sql.types import format_array_type, format_struct_type

POLICIES = ("append_new_columns", "sync_all_columns", "ignore", "fail")
ID, TS, AMOUNT = Column("id", "bigint"), Column("ts", "timestamp"), Column("amount", "decimal(10,2)")
TABLE = (ID, TS, AMOUNT)


def a_model(contract: tuple[Column, ...] = (), not_null: tuple[str, ...] = (), **config: Any) -> Model:
    settings = ModelConfig(**{"primary_key": ("id",), "hash_key": "id", **config})
    return Model(TableName("lake", "dwd", "orders"), "select 1", settings, not_null, contract)


def refusal(model: Model, *query: Column, stored: tuple[Column, ...] | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        check_query(model, query, query if stored is None else stored)
    text = str(raised.value)
    assert text.startswith("lake.dwd.orders: ")
    return text


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=15)
@given(st.permutations(TABLE))
def test_the_same_columns_in_any_order_change_nothing(policy: Any, query: list[Column]) -> None:
    assert plan_schema(a_model(on_schema_change=policy), TABLE, tuple(query)).is_empty


@pytest.mark.parametrize("policy", POLICIES)
def test_the_case_of_a_name_makes_no_new_column(policy: Any) -> None:
    query = (Column("ID", "bigint"), Column("Ts", "timestamp"), AMOUNT)
    assert plan_schema(a_model(on_schema_change=policy), TABLE, query).is_empty


NEW, GONE, WIDENED = (*TABLE, Column("note", "string")), (ID, TS), (ID, TS, Column("amount", "decimal(12,2)"))
ADD = SchemaChange(add=(Column("note", "string"),))
WIDEN = SchemaChange(widen=(Column("amount", "decimal(12,2)"),))


@pytest.mark.parametrize(
    ("policy", "query", "change"),
    [
        ("append_new_columns", NEW, ADD),
        ("append_new_columns", GONE, SchemaChange()),
        ("append_new_columns", WIDENED, WIDEN),
        ("sync_all_columns", NEW, ADD),
        ("sync_all_columns", GONE, SchemaChange(drop=("amount",))),
        ("sync_all_columns", WIDENED, WIDEN),
        ("ignore", NEW, SchemaChange()),
        ("ignore", GONE, SchemaChange()),
        ("ignore", WIDENED, WIDEN),
        ("fail", WIDENED, WIDEN),
    ],
)
def test_a_table_follows_its_query_as_far_as_the_policy_says(
    policy: Any, query: tuple[Column, ...], change: SchemaChange
) -> None:
    assert plan_schema(a_model(on_schema_change=policy), TABLE, query) == change


@pytest.mark.parametrize("policy", POLICIES)
def test_a_column_is_renamed_where_the_query_has_the_new_name_alone_and_only_once(policy: Any) -> None:
    model = a_model(on_schema_change=policy, renamed_columns={"Net": "VALUE"})
    old, new = (ID, Column("value", "int")), (ID, Column("net", "bigint"))
    change = SchemaChange(rename=(("value", "net"),), widen=(Column("net", "bigint"),))
    assert plan_schema(model, old, new) == change
    for there in (new, (*new, old[1])):
        assert plan_schema(model, there, there).is_empty
    if policy == "append_new_columns":
        assert plan_schema(model, old, (*old, new[1])) == SchemaChange(add=(new[1],))
        assert plan_schema(model, old, (ID,)).is_empty


@pytest.mark.parametrize(("query", "line"), [(NEW, "new in the query: ['note']"), (GONE, "no longer in the query")])
def test_policy_fail_names_the_columns_that_differ(query: tuple[Column, ...], line: str) -> None:
    with pytest.raises(ConfigError, match="`on_schema_change` is `fail`") as raised:
        plan_schema(a_model(on_schema_change="fail"), TABLE, query)
    assert line in str(raised.value)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("kept", "wanted_type"),
    [
        ("string", "int"),
        ("int", "string"),
        ("timestamp", "date"),
        ("decimal(10,2)", "decimal(10,3)"),
        ("bigint", "double"),
        ("struct<a:int>", "struct<a:int,b:int>"),
    ],
)
def test_a_type_that_cannot_be_widened_is_an_error_under_every_policy(policy: Any, kept: str, wanted_type: str) -> None:
    with pytest.raises(ConfigError, match="column `v` changed") as raised:
        plan_schema(a_model(on_schema_change=policy), (ID, Column("v", kept)), (ID, Column("v", wanted_type)))
    assert f"in the table: {kept}\n  in the query: {wanted_type}" in str(raised.value)


@pytest.mark.parametrize(
    ("kept", "wanted_type"),
    [("int", "bigint"), ("float", "double"), ("decimal(10,2)", "decimal(38,2)")],
)
def test_a_widening_works_in_one_direction_and_narrower_rows_still_fit(kept: str, wanted_type: str) -> None:
    wide = plan_schema(a_model(), (ID, Column("v", kept)), (ID, Column("V", wanted_type)))
    assert wide == SchemaChange(widen=(Column("v", wanted_type),))
    assert plan_schema(a_model(), (ID, Column("v", wanted_type)), (ID, Column("v", kept))).is_empty


def test_a_partition_column_is_never_widened() -> None:
    model = a_model(partition_by=(Transform("identity", "Region"),))
    with pytest.raises(ConfigError, match=r"(?s)is in partition_by.*in the query, or delete the tables with"):
        plan_schema(model, (ID, Column("region", "int")), (ID, Column("region", "bigint")))


_types = st.sampled_from(["int", "bigint", "float", "double", "string", "decimal(10,2)", "decimal(12,2)"])
_columns = st.lists(
    st.builds(Column, st.sampled_from("abcdef"), _types), max_size=6, unique_by=lambda column: column.name
).map(tuple)


@settings(max_examples=40)
@given(st.sampled_from(POLICIES), _columns, _columns)
def test_after_its_change_a_table_fits_its_query(policy: Any, table, query) -> None:
    model = a_model(on_schema_change=policy)
    try:
        change = plan_schema(model, table, query)
    except ConfigError:
        return
    widened = {column.name: column for column in change.widen}
    kept = [widened.get(column.name, column) for column in table if column.name not in change.drop]
    after = (*kept, *change.add)
    assert plan_schema(model, after, query).is_empty
    if policy == "sync_all_columns":
        assert {column.name for column in after} == {column.name for column in query}
    if policy == "append_new_columns":
        assert {column.name for column in after} == {column.name for column in (*table, *query)}


@pytest.mark.parametrize(
    ("spark", "iceberg"),
    [
        ("tinyint", "int"),
        ("smallint", "int"),
        ("varchar(20)", "string"),
        ("char(3)", "string"),
        ("bigint", "bigint"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("array<smallint>", "array<int>"),
        ("map<tinyint,varchar(3)>", "map<int,string>"),
        ("struct<tinyint:int,b:smallint>", "struct<tinyint:int,b:int>"),
    ],
)
def test_a_type_is_what_iceberg_keeps_it_as_at_any_depth(spark: str, iceberg: str) -> None:
    assert to_stored_type(spark) == iceberg
    assert to_stored_type(iceberg) == iceberg


def test_a_plain_query_makes_a_table() -> None:
    model = a_model(sort_key=("ts",), partition_by=(Transform("days", "TS"),), not_null=("amount",))
    check_query(model, TABLE, TABLE)


@pytest.mark.parametrize(
    ("key", "model"),
    [
        ("primary_key", a_model(primary_key=("nope",), hash_key=None)),
        ("sort_key", a_model(sort_key=("nope",))),
        ("partition_by", a_model(partition_by=(Transform("days", "nope"),))),
        ("contract", a_model(not_null=("nope",))),
        ("sequence_by", a_model(input="changes", sequence_by="nope")),
        ("exclude_columns", a_model(input="changes", exclude_columns=("nope",))),
    ],
)
def test_a_column_that_the_query_does_not_have_is_named_with_those_it_has(key: str, model: Model) -> None:
    text = refusal(model, *TABLE)
    assert f"`{key}` names column `nope`" in text
    assert "found: id, ts, amount" in text


def test_a_key_that_is_excluded_from_the_table_is_missed_there() -> None:
    assert "`primary_key` names column `id`" in refusal(a_model(), *TABLE, stored=(TS, AMOUNT))


def test_two_columns_of_one_name_are_refused_in_any_case() -> None:
    assert "two columns named `ID`" in refusal(a_model(), ID, Column("ID", "string"))


@pytest.mark.parametrize("name", ["", "a\x00b"])
def test_a_name_that_no_column_can_have_is_refused(name: str) -> None:
    assert f"{name!r} is not a valid column name" in refusal(a_model(), ID, Column(name, "int"))


@pytest.mark.parametrize("name", ["_action", "_TS", "_seq", "_before", "_position"])
def test_the_names_of_change_rows_are_reserved(name: str) -> None:
    text = refusal(a_model(), ID, Column(name, "int"))
    assert f"found: {name.lower()}" in text
    check_query(a_model(input="changes"), (ID, Column(name, "int")), (ID,))


@pytest.mark.parametrize("kind", ["struct<a:int>", "array<int>", "map<int,int>", "variant", "void", "interval day"])
def test_what_cannot_be_compared_is_no_key(kind: str) -> None:
    text = refusal(a_model(), Column("id", kind))
    assert f"column `id` is of type {kind} and can't be part of a primary key" in text


@pytest.mark.parametrize("kind", ["boolean", "float", "double"])
def test_what_iceberg_cannot_bucket_is_no_hash_key(kind: str) -> None:
    assert f"column `id` is of type {kind} and can't be a bucket key" in refusal(a_model(), Column("id", kind))


@pytest.mark.parametrize("kind", ["void", "interval day to second", "variant"])
def test_what_iceberg_cannot_keep_has_to_be_cast(kind: str) -> None:
    assert "can't be stored in an Iceberg table; cast it" in refusal(a_model(), ID, Column("v", kind))


@pytest.mark.parametrize("field", ["a b", "a`b", "map<", "订单", "a:int>) or true --", "tinyint,b:int"])
def test_nested_fields_have_any_name_that_can_be_quoted(field: str) -> None:
    kind = format_array_type(format_struct_type([(field, "int")]))
    check_query(a_model(), (ID, Column("v", kind)), (ID, Column("v", kind)))
    assert to_stored_type(kind) == kind


@pytest.mark.parametrize("field", ["a${b}", "", "a\x00"])
def test_a_nested_name_that_spark_would_change_is_refused(field: str) -> None:
    kind = format_array_type(format_struct_type([(field, "int")]))
    assert f"a field named {field!r}, which can't be written in SQL" in refusal(a_model(), ID, Column("v", kind))


@pytest.mark.parametrize("kind", ["string collate UTF8_LCASE", "struct<a:array<string collate UNICODE_CI>>"])
def test_a_collation_that_iceberg_would_drop_is_refused(kind: str) -> None:
    assert "column `v` has a collation, which an Iceberg table does not keep" in refusal(
        a_model(), ID, Column("v", kind)
    )


@pytest.mark.parametrize("kind", ["array<map<int,int>>", "struct<a:map<int,int>>", "map<int,map<int,int>>"])
def test_a_map_inside_another_type_is_refused_since_it_cannot_be_compared(kind: str) -> None:
    assert "map_entries()" in refusal(a_model(), ID, Column("v", kind))
    check_query(a_model(), (ID, Column("v", "map<int,array<int>>")), (ID, Column("v", "map<int,array<int>>")))


@pytest.mark.parametrize(
    ("declared", "actual"),
    [
        ("integer", "int"),
        ("INT", "int"),
        ("short", "int"),
        ("smallint", "int"),
        ("long", "bigint"),
        ("BigInt", "bigint"),
        ("real", "float"),
        ("text", "string"),
        ("varchar(20)", "string"),
        ("char(3)", "string"),
        ("numeric(10, 2)", "decimal(10,2)"),
        ("decimal", "decimal(10,0)"),
        ("decimal(12)", "decimal(12,0)"),
        ("timestamp_ltz", "timestamp"),
        ("array<integer>", "array<int>"),
        ("map<string, long>", "map<string,bigint>"),
        ("struct<a: integer, b: decimal>", "struct<a:int,b:decimal(10,0)>"),
        ("struct<Total int>", "struct<Total:int>"),
    ],
)
def test_a_contract_may_spell_a_type_as_spark_users_do(declared: str, actual: str) -> None:
    query = (ID, Column("v", actual))
    check_query(a_model(contract=(Column("ID", "long"), Column("V", declared))), query, query)


@pytest.mark.parametrize(
    ("contract", "line"),
    [
        ((ID, TS), "amount: the contract says no such column, the query decimal(10,2)"),
        ((*TABLE, Column("x", "int")), "x: the contract says int, the query has none"),
        ((ID, TS, Column("amount", "double")), "amount: the contract says double, the query decimal(10,2)"),
        ((ID, TS, Column("amount", "nonsense(")), "amount: the contract says nonsense(, the query decimal(10,2)"),
    ],
)
def test_a_broken_contract_names_the_column_and_both_types(contract: tuple[Column, ...], line: str) -> None:
    text = refusal(a_model(contract=contract), *TABLE)
    assert "enforced contract that failed" in text
    assert text.count("the contract says") == 1
    assert line in text


@pytest.mark.parametrize(
    ("kept", "wanted", "widened"),
    [
        ("bigint", "bigint", None),
        ("bigint", "int", None),
        ("int", "bigint", "bigint"),
        ("decimal(10,0)", "decimal(20,0)", "decimal(20,0)"),
    ],
)
def test_the_column_of_the_order_grows_with_the_places_of_events(kept: str, wanted: str, widened: str | None) -> None:
    sequence = plan_sequence(a_model(input="changes", sequence_by="lsn"), kept, wanted)
    assert sequence == SchemaChange(widen=(Column("_seq", widened),) if widened else ())


@pytest.mark.parametrize(("sequence", "wanted"), [("at", "timestamp"), (None, "bigint")])
def test_an_order_of_another_type_than_the_change_table_keeps_is_refused(sequence: str | None, wanted: str) -> None:
    kept = "bigint" if sequence else "date"
    with pytest.raises(ConfigError, match=f"`_seq` is a {kept}\n  in the model: .*`sequence_by.*a {wanted}"):
        plan_sequence(a_model(input="changes", sequence_by=sequence), kept, wanted)
    assert plan_sequence(a_model(), kept, wanted).is_empty
