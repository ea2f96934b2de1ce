"""A model's configuration: everything that is written is understood, or refused with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.layout import format_layout
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig, Transform
from arctic_runtime.plan.config.configuration import CONFIGURATION, KEYS, ConfigKey
from arctic_runtime.plan.config.configure import lacks_key, read_configuration, select_user_keys
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.plan.refresh.increment import Upstreams

KEY = {"primary_key": ["id"]}
EVENTS = {**KEY, "input": "changes"}
VERSIONS = {**EVENTS, "sequence_by": "at", "history": "scd2"}
SCD2 = {**KEY, "history": "scd2"}
SCD2_EVENTS = {**EVENTS, "history": "scd2", "sequence_by": "lsn"}

PARTIAL = {**EVENTS, "columns_to_update": "changed"}
FLOWS = {**EVENTS, "sequence_by": {"at": ["a"], "on": ["b"]}}

BUILT: dict[str, tuple[dict[str, Any], Any]] = {
    "primary_key": ({}, ["id"]),
    "partition_by": (KEY, ["days(ts)"]),
    "hash_key": (KEY, "id"),
    "sort_key": (KEY, "ts"),
    "merge": (KEY, "on_read"),
    "input": (KEY, "changes"),
    "refresh": (KEY, "strict"),
    "sequence_by": (EVENTS, "lsn"),
    "columns_to_update": (EVENTS, "changed"),
    "unavailable_value": (EVENTS, "__debezium_unavailable_value"),
    "delete_when": (EVENTS, "op = 'd'"),
    "truncate_when": (EVENTS, "op = 't'"),
    "on_match": (EVENTS, "update"),
    "merge_columns": (EVENTS, {"n": "sum"}),
    "exclude_columns": (EVENTS, ["op"]),
    "renamed_columns": (KEY, {"net": "amount"}),
    "history": ({**EVENTS, "sequence_by": "lsn"}, "scd2"),
    "track": ({**KEY, "history": "scd2"}, "segment"),
    "valid_time": ({**EVENTS, "history": "scd2", "sequence_by": "lsn"}, "true_from"),
    "keep_deleted": ({**KEY, "history": "scd2"}, False),
    "changes_view": (KEY, True),
    "current_view": ({**KEY, "history": "scd2"}, True),
    "changelog": (EVENTS, "input"),
    "keep": (EVENTS, "all"),
    "on_schema_change": (KEY, "fail"),
    "on_configuration_change": (KEY, "continue"),
    "on_session_change": (KEY, "keep"),
    "on_query_change": (KEY, "forward"),
    "on_missing_key": (KEY, "table"),
    "frozen_where": (KEY, "day < current_date - interval 90 days"),
    "on_failed_row": (KEY, "quarantine"),
    "compaction": (KEY, {"small_files": 4}),
    "retention": (KEY, {"versions": "5d"}),
    "target_lag": (KEY, "30s"),
    "nodes": (KEY, 8),
    "deterministic_functions": (KEY, ["tidy"]),
    "target_file_bytes": (KEY, 2**20),
    "node_bytes": (KEY, "64 MiB"),
    "format_version": (KEY, 2),
    "tblproperties": (KEY, {"write.parquet.compression-level": 3}),
}
"""Every key of the reference → what it needs beside it, and a value that is built."""

UNCHANGED = ("primary_key", "history", "valid_time")
"""Keys that are in the fingerprint too, but of which no table takes another value."""


def errors(raw: dict[str, Any], known: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        read_configuration(raw, "model shop.orders", known)
    first, *rest = str(raised.value).split("\n  - ")
    assert first == "model shop.orders: invalid configuration."
    return rest


def test_every_key_of_the_reference_is_known() -> None:
    assert set(KEYS) == {*BUILT, "unique_key"}
    assert len(KEYS) == len(set(KEYS))


@pytest.mark.parametrize("key", BUILT)
def test_a_key_that_is_built_is_taken(key: str) -> None:
    beside, value = BUILT[key]
    assert read_configuration({**beside, key: value}, "m").entity_key == ("id",)


def test_a_key_alone_gives_the_documented_defaults() -> None:
    assert read_configuration(KEY, "m") == ModelConfig(
        primary_key=("id",),
        partition_by=(),
        hash_key="id",
        sort_key=(),
        merge="on_write",
        input="state",
        refresh="auto",
        sequence_by=None,
        delete_when=None,
        on_match="replace",
        exclude_columns=(),
        changelog="lookup",
        on_schema_change="append_new_columns",
        nodes=None,
        tblproperties={},
    )


@pytest.mark.parametrize(
    ("raw", "key", "hash_key"),
    [
        ({"primary_key": "id"}, ("id",), "id"),
        ({"primary_key": ["b", "a"]}, ("b", "a"), "b"),
        ({"primary_key": ["b", "a"], "hash_key": "a"}, ("b", "a"), "a"),
        ({"primary_key": ["Id"], "hash_key": "iD"}, ("Id",), "iD"),
        ({"unique_key": ["id"]}, ("id",), "id"),
        ({"unique_key": "id", "primary_key": ["id"]}, ("id",), "id"),
        ({"primary_key": []}, (), None),
    ],
)
def test_the_key_names_what_identifies_a_row_and_its_first_column_buckets(
    raw: dict[str, Any], key: tuple[str, ...], hash_key: str | None
) -> None:
    config = read_configuration(raw, "m")
    assert (config.primary_key, config.hash_key) == (key, hash_key)


def test_flows_have_an_order_each_and_none_together() -> None:
    config = read_configuration(FLOWS, "m")
    assert config.sequence_by is None
    assert config.sequence_groups == {"at": ("a",), "on": ("b",)}


def test_a_key_set_to_none_is_a_key_not_set() -> None:
    assert read_configuration({**KEY, **dict.fromkeys(set(KEYS) - {"primary_key"})}, "m") == read_configuration(
        KEY, "m"
    )


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("partiton_by", "did you mean `partition_by`?"),
        ("primary_keys", "did you mean `primary_key`?"),
        ("merge_on", "did you mean `merge`?"),
        ("materialised", "did you mean `materialized`?"),
        ("zzz", "put keys of your own below `meta`"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_name(written: str, hint: str) -> None:
    assert errors({**KEY, written: 1}, known=("materialized",)) == [f"unknown key `{written}`; {hint}"]


def test_keys_of_dbt_and_of_others_are_not_looked_at() -> None:
    assert read_configuration({**KEY, "tags": object()}, "m", known=("tags",)) == read_configuration(KEY, "m")


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    messages = errors({"primry_key": "id", "merge": "on_rite", "nodes": 3, "keep": "every"})
    assert len(messages) == 5
    assert "did you mean `primary_key`?" in messages[0]
    assert "`merge` must be one of on_write, on_read; found 'on_rite'; did you mean `on_write`?" in messages[1]
    assert "`keep` must be one of net, all; found 'every'" in messages[2]
    assert "`nodes` must be auto or a power of two; found 3" in messages[3]
    assert "`primary_key` is missing" in messages[4]


def test_a_missing_key_is_no_error_where_it_may_come_later_but_all_else_is() -> None:
    assert read_configuration({"hash_key": "id"}, "m", may_lack_key=True).primary_key == ()
    with pytest.raises(ConfigError) as raised:
        read_configuration({"primry_key": "id", "merge": "on_rite"}, "m", may_lack_key=True)
    assert "did you mean `primary_key`?" in str(raised.value)
    assert "did you mean `on_write`?" in str(raised.value)
    assert "is missing" not in str(raised.value)


@pytest.mark.parametrize(
    ("raw", "lacks"),
    [
        ({}, True),
        ({"primary_key": None}, True),
        ({"primary_key": "none"}, False),
        ({"primary_key": []}, False),
        ({"unique_key": "id"}, False),
    ],
)
def test_a_key_is_missing_unless_it_is_given_or_denied(raw: dict[str, Any], lacks: bool) -> None:
    assert lacks_key(raw) == lacks


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, "`primary_key` is missing"),
        ({"primary_key": "a", "unique_key": "b"}, "`primary_key` and `unique_key` differ"),
        ({**SCD2, "frozen_where": "day < '2026-01-01'"}, "`history: scd2` ends versions and begins new ones"),
        ({**EVENTS, "changelog": "input", "frozen_where": "n > 1"}, "never looks at the old row, which may be frozen"),
        ({**EVENTS, "keep": "all", "frozen_where": "n > 1"}, "in which a row may become frozen"),
        ({**KEY, "on_failed_row": "quarantine", "frozen_where": "n > 1"}, "moves rows out of the table"),
        ({"primary_key": [], "frozen_where": "n > 1"}, "`frozen_where` needs a primary key with a column"),
        ({**KEY, "frozen_where": "day > current_date"}, "may be true of a row and false of the same row later"),
        ({**KEY, "frozen_where": "rand() < 1"}, "depends on more than its arguments"),
        ({**KEY, "frozen_where": 3}, "`frozen_where` must be a non-empty string"),
        ({**EVENTS, "on_failed_row": "quarantine"}, "with `input: changes` it returns events"),
        ({**SCD2, "on_failed_row": "quarantine"}, "would end the versions of a row that fails"),
        ({"primary_key": [], "on_failed_row": "quarantine"}, "needs a primary key with a column"),
        ({**KEY, "hash_key": "other"}, "`hash_key: other` must be one of the primary key's columns: ['id']"),
        ({"primary_key": [], "hash_key": "id"}, "`hash_key: id` must be one of"),
        ({"primary_key": ["id", "ID"]}, "`primary_key` names `id` more than once"),
        ({**KEY, "sort_key": ["a", "A"]}, "`sort_key` names `a` more than once"),
        ({**KEY, "partition_by": ["days(ts)", "day(TS)"]}, "`partition_by` names `days(ts)` more than once"),
        ({**EVENTS, "exclude_columns": ["x", "x"]}, "`exclude_columns` names `x` more than once"),
        ({"primary_key": ["_Action"]}, "`_Action` is a name that change rows reserve"),
        ({**KEY, "sort_key": "_ts"}, "`_ts` is a name that change rows reserve"),
        ({**EVENTS, "exclude_columns": ["ID"]}, "`exclude_columns` drops `ID`"),
        ({**EVENTS, "exclude_columns": ["ts"], "sort_key": "ts"}, "`exclude_columns` drops `ts`"),
        ({**EVENTS, "exclude_columns": ["ts"], "partition_by": "days(Ts)"}, "`exclude_columns` drops `ts`"),
        ({**KEY, "sequence_by": "lsn"}, "`sequence_by` says how change events apply; it needs `input: changes`"),
        ({**KEY, "delete_when": "true"}, "`delete_when` says how change events apply"),
        ({**KEY, "on_match": "replace"}, "`on_match` says how change events apply"),
        ({**KEY, "renamed_columns": {"ID": "old"}}, "`renamed_columns` names `ID`, which the key"),
        ({**KEY, "renamed_columns": {"n": "ts"}, "sort_key": "TS"}, "`renamed_columns` names `ts`, which the key"),
        ({**KEY, "renamed_columns": {"n": "r"}, "partition_by": "r"}, "`renamed_columns` names `r`, which the key"),
        ({**KEY, "renamed_columns": {"n": "v", "m": "V"}}, "gives one old name to several columns"),
        ({**KEY, "renamed_columns": ["n"]}, "must be a mapping of new names to old ones; found ['n']"),
        ({**KEY, "renamed_columns": {"n": 1}}, "must be a mapping of new names to old ones"),
        ({**KEY, "exclude_columns": ["x"]}, "`exclude_columns` says how change events apply"),
        ({**KEY, "changelog": "lookup"}, "`changelog` says how change events apply"),
        ({**EVENTS, "changelog": "input", "on_match": "ignore"}, "which `on_match: ignore` needs"),
        ({**KEY, "merge_columns": {"n": "sum"}}, "`merge_columns` says how change events apply"),
        ({**EVENTS, "merge_columns": {"n": "first"}}, "`merge_columns: n: first` depends on the order of events"),
        ({**EVENTS, "merge_columns": {"n": "old.n + new.n"}}, "it needs `sequence_by`"),
        (
            {**VERSIONS, "merge_columns": {"n": "sum"}},
            "`history: scd2` needs events with whole rows; `merge_columns`",
        ),
        ({**VERSIONS, "keep": "all"}, "leave out `keep: all`"),
        (
            {**VERSIONS, "truncate_when": "true"},
            "instead of `truncate_when`",
        ),
        ({**EVENTS, "merge_columns": {"ID": "sum"}}, "`merge_columns` names `ID`, which is in `primary_key`"),
        ({**EVENTS, "merge_columns": {"n": "sum", "N": "max"}}, "`merge_columns` names `n` more than once"),
        ({**EVENTS, "merge_columns": {"n": "sum"}, "changelog": "input"}, "which `merge_columns` needs"),
        ({**KEY, "truncate_when": "true"}, "`truncate_when` says how change events apply"),
        ({**KEY, "keep": "all"}, "`keep: all` says which change events are kept; it needs `input: changes`"),
        ({**EVENTS, "keep": "all", "changelog": "input"}, "which `keep: all` needs"),
        ({**EVENTS, "truncate_when": "true", "changelog": "input"}, "which `truncate_when` needs"),
        ({**FLOWS, "on_match": "update"}, "`on_match: update` needs one order of all events"),
        ({**FLOWS, "keep": "all"}, "`keep: all` needs one order of all events"),
        ({**FLOWS, "truncate_when": "true"}, "`truncate_when: true` needs one order of all events"),
        ({**FLOWS, "changelog": "input"}, "`changelog: input` needs one order of all events"),
        ({**FLOWS, "exclude_columns": "A"}, "`sequence_by` names `a`, which is in `primary_key` or `exclude_columns`"),
        ({**FLOWS, "delete_when": "true", "merge_columns": {"n": "sum"}}, "`delete_when` and `merge_columns` need one"),
        ({**EVENTS, "sequence_by": {"at": ["a"], "on": ["A"]}}, "`sequence_by` names `a` more than once"),
        ({**KEY, "columns_to_update": "c"}, "`columns_to_update` says how change events apply"),
        ({**PARTIAL, "on_match": "update"}, "`on_match: update` says by itself which columns of an event count"),
        ({**PARTIAL, "changelog": "input"}, "`changelog: input` never looks at the old row, which keeps the other"),
        ({**PARTIAL, **SCD2_EVENTS}, "`history: scd2` needs events with whole rows; leave out `columns_to_update`"),
        (
            {**EVENTS, "sequence_by": "lsn", "unavailable_value": "?", "merge_columns": {"n": "first"}},
            "whether an earlier event had the column; leave out `unavailable_value`",
        ),
        ({**FLOWS, "columns_to_update": "AT"}, "`columns_to_update: AT` is not stored, and another key uses it"),
        ({**EVENTS, "refresh": "full"}, "`refresh: full` is for what a query says the table is"),
        ({**EVENTS, "refresh": "strict"}, "`refresh: strict` is for what a query says the table is"),
        ({**KEY, "partition_by": "bucket(8, ID)"}, "`partition_by: bucket(8, ID)` buckets the hash key"),
        ({**KEY, "track": "a"}, "`track` says how versions of a row are kept; it needs `history: scd2`"),
        ({**KEY, "keep_deleted": True}, "`keep_deleted` says how versions of a row are kept"),
        ({**KEY, "valid_time": "t"}, "`valid_time` says how versions of a row are kept"),
        ({**KEY, "current_view": True}, "`current_view` says how versions of a row are kept"),
        ({**SCD2, "current_view": ""}, "`current_view` must be true, false or the name of a view; found ''"),
        ({**SCD2, "current_view": "a/b"}, "'a/b' is not a valid part of a table name."),
        ({**SCD2, "valid_time": "t"}, "`valid_time` is a column of change events; it needs `input: changes`"),
        ({**SCD2_EVENTS, "valid_time": "t", "track": "a"}, "`track` has no meaning with `valid_time`"),
        ({**SCD2_EVENTS, "valid_time": "t", "keep_deleted": False}, "which a table with `valid_time` never does"),
        ({**SCD2, "track": ["a", "A"]}, "`track` names `a` more than once"),
        ({**SCD2, "track": "ID"}, "`track` names `ID`, which is in the primary key"),
        ({**SCD2, "hash_key": "_valid_from"}, "must be one of the primary key's columns: ['id']"),
        ({**SCD2, "primary_key": []}, "`history: scd2` needs a primary key with a column"),
        ({**SCD2, "primary_key": ["id", "_valid_to"]}, "`_valid_to` is a column that `history: scd2` adds"),
        ({**SCD2, "renamed_columns": {"_is_current": "x"}}, "`_is_current` is a column that `history: scd2` adds"),
        ({**SCD2, "input": "changes"}, "`history: scd2` with `input: changes` needs `sequence_by`"),
        ({**SCD2_EVENTS, "on_match": "update"}, "needs events with whole rows; `on_match: update`"),
        ({**SCD2_EVENTS, "changelog": "input"}, "which `changelog: input` never does"),
        ({**SCD2_EVENTS, "track": "op", "exclude_columns": "op"}, "`track` names `op`, which `exclude_columns` drops"),
    ],
)
def test_a_contradiction_is_an_error(raw: dict[str, Any], says: str) -> None:
    (error,) = errors(raw)
    assert says in error


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("primary_key", "", "must be a column name or a list of them"),
        ("primary_key", 7, "must be a column name or a list of them"),
        ("sort_key", ["a", ""], "must be a column name or a list of them"),
        ("sort_key", {"a": 1}, "must be a column name or a list of them"),
        ("hash_key", ["id"], "must be a non-empty string"),
        ("hash_key", " ", "must be a non-empty string"),
        ("keep_deleted", "false", "must be true or false; found 'false'"),
        ("history", "scd1", "did you mean `scd2`?"),
        ("merge", ["on_read"], "must be one of on_write, on_read"),
        ("input", "change", "did you mean `changes`?"),
        ("on_schema_change", "sync", "must be one of append_new_columns, sync_all_columns, fail, ignore"),
        ("tblproperties", ["a"], "must be a mapping"),
        ("sequence_by", ["lsn"], "must be a non-empty string"),
        ("sequence_by", {}, "must be a column, or a mapping of columns to lists of columns"),
        ("sequence_by", {"at": []}, "gives at no columns"),
        ("merge_columns", ["n"], "must be a mapping of columns to functions"),
        ("merge_columns", {}, "must be a mapping of columns to functions"),
        ("merge_columns", {"n": 1}, "must be a mapping of columns to functions"),
        ("merge_columns", {"n": "summ"}, "found: 'summ' uses `summ`; write `old.column` or `new.column`; did you mean"),
        ("merge_columns", {"n": "old + new"}, "write `old.column` or `new.column`"),
        ("merge_columns", {"n": "1"}, "uses neither `old.column` nor `new.column`"),
        ("merge_columns", {"n": "old.n +"}, "is not an SQL expression"),
        ("merge_columns", {"n": "max(new.n)"}, "such as `greatest` instead of `max`"),
        ("merge_columns", {"n": "old.n + rand()"}, "gives another result at another time: RAND"),
        ("merge_columns", {"n": "transform(new.n, old -> old + 1)"}, "names a variable `old` or `new`"),
        ("tblproperties", {"arctic.kind": "base"}, "the state of the table"),
        ("tblproperties", {"format-version": 2}, "set the key `format_version`"),
        ("tblproperties", {"write.data.path": "/data"}, "change table and base would share a folder"),
        ("tblproperties", {"write.metadata.path": "/meta"}, "change table and base would share a folder"),
        ("format_version", 1, "must be one of 3, 2"),
        ("format_version", "2", "did you mean `2`?"),
        ("format_version", True, "must be one of 3, 2"),
        ("nodes", 2**20, "must be at most 65536"),
    ],
)
def test_a_value_of_the_wrong_kind_is_an_error(key: str, value: Any, says: str) -> None:
    (error,) = errors({**KEY, key: value})
    assert f"`{key}`" in error
    assert says in error


@pytest.mark.parametrize("value", [0, -1, -2, 3, 6, 12, 2**16 + 1, 1.0, 2.5, "8", True, False, [8]])
def test_nodes_are_a_power_of_two(value: Any) -> None:
    (error,) = errors({**KEY, "nodes": value})
    assert error == f"`nodes` must be auto or a power of two; found {value!r}"


@pytest.mark.parametrize("power", range(17))
def test_every_power_of_two_up_to_the_limit_is_a_number_of_nodes(power: int) -> None:
    assert read_configuration({**KEY, "nodes": 2**power}, "m").nodes == 2**power


def test_nodes_auto_leaves_the_number_to_the_first_load() -> None:
    assert read_configuration({**KEY, "nodes": "auto"}, "m").nodes is None


def test_table_properties_become_texts_as_iceberg_reads_them() -> None:
    properties = {"a": True, "b": 4, "c": "x", "d": False}
    assert read_configuration({**KEY, "tblproperties": properties}, "m").tblproperties == {
        "a": "true",
        "b": "4",
        "c": "x",
        "d": "false",
    }


@pytest.mark.parametrize(
    ("written", "transform"),
    [
        ("region", Transform("identity", "region")),
        (" region ", Transform("identity", "region")),
        ("ordered at", Transform("identity", "ordered at")),
        ("`a(b), c`", Transform("identity", "a(b), c")),
        ("`a``b`", Transform("identity", "a`b")),
        ("identity(region)", Transform("identity", "region")),
        ("years(ts)", Transform("years", "ts")),
        ("year(ts)", Transform("years", "ts")),
        ("MONTHS( ts )", Transform("months", "ts")),
        ("month(ts)", Transform("months", "ts")),
        ("days(ts)", Transform("days", "ts")),
        ("day (ts)", Transform("days", "ts")),
        ("date(ts)", Transform("days", "ts")),
        ("hours(ts)", Transform("hours", "ts")),
        ("hour(ts)", Transform("hours", "ts")),
        ("bucket(16, customer)", Transform("bucket", "customer", 16)),
        ("bucket(16,customer)", Transform("bucket", "customer", 16)),
        ("truncate(4, name)", Transform("truncate", "name", 4)),
        ("days(`ordered at`)", Transform("days", "ordered at")),
        ("days(`a``b`)", Transform("days", "a`b")),
        ("bucket(4, `a,b`)", Transform("bucket", "a,b", 4)),
        ("bucket(4, `a)(b`)", Transform("bucket", "a)(b", 4)),
    ],
)
def test_partition_transforms_are_read_as_iceberg_and_spark_write_them(written: str, transform: Transform) -> None:
    assert read_configuration({**KEY, "partition_by": written}, "m").partition_by == (transform,)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("week(ts)", "is not an Iceberg transform"),
        ("days(ts", "is not an Iceberg transform"),
        ("days(a, b)", "is not an Iceberg transform"),
        ("days(days(ts))", "is not an Iceberg transform"),
        ("bucket(-1, a)", "is not an Iceberg transform"),
        ("a)", "is not an Iceberg transform"),
        ("days(`a)", "is not an Iceberg transform"),
        ("bucket(customer)", "bucket and truncate need a number"),
        ("truncate(name)", "bucket and truncate need a number"),
        ("days(3, ts)", "transforms take none"),
        ("bucket(0, a)", "from 1 to 2147483647"),
        ("truncate(0, a)", "from 1 to 2147483647"),
        ("bucket(99999999999, a)", "from 1 to 2147483647"),
    ],
)
def test_what_is_no_partition_transform_is_refused(written: str, says: str) -> None:
    (error,) = errors({**KEY, "partition_by": [written]})
    assert f"`partition_by: {written}`" in error
    assert says in error


@settings(max_examples=40)
@given(
    st.text(min_size=1, max_size=8),
    st.sampled_from(["identity", "days", "bucket", "truncate"]),
    st.integers(1, 2**31 - 1),
)
def test_any_column_can_be_partitioned_by_under_backticks(column: str, unit: Any, width: int) -> None:
    number = width if unit in ("bucket", "truncate") else None
    quoted = "`" + column.replace("`", "``") + "`"
    written = f"{unit}({quoted})" if number is None else f"{unit}({number}, {quoted})"
    config = read_configuration({"primary_key": [], "partition_by": written}, "m")
    assert config.partition_by == (Transform(unit, column, number),)


def test_what_dbt_fills_in_by_itself_is_not_taken_for_the_users_words() -> None:
    merged = {"primary_key": "id", "on_schema_change": "ignore", "on_configuration_change": "apply", "tags": []}
    assert select_user_keys(merged, written=["primary_key"]) == {"primary_key": "id", "tags": []}
    assert select_user_keys(merged, written=["on_schema_change"])["on_schema_change"] == "ignore"


@pytest.mark.parametrize(
    ("value", "bytes_"), [(2**20, 2**20), ("64 MiB", 64 * 2**20), ("1GiB", 2**30), (" 3072 KiB ", 3 * 2**20)], ids=str
)
@pytest.mark.parametrize("key", ["node_bytes", "target_file_bytes"])
def test_a_size_is_a_number_of_bytes_or_says_its_unit(key: str, value: Any, bytes_: int) -> None:
    assert getattr(read_configuration({**KEY, key: value}, "m"), key) == bytes_


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "64", "64 MB", "0 MiB", "MiB", [], {}], ids=str)
def test_a_size_without_a_unit_that_is_known_is_refused(value: Any) -> None:
    (error,) = errors({**KEY, "node_bytes": value})
    assert error == f"`node_bytes` must be a number of bytes, or a text such as 64 MiB or 1 GiB; found {value!r}"


@pytest.mark.parametrize("key", ["node_bytes", "target_file_bytes"])
@pytest.mark.parametrize("value", [256, 2**20 - 1, "1023 KiB"], ids=str)
def test_a_size_that_would_make_a_file_of_every_few_rows_is_refused(key: str, value: Any) -> None:
    """Somebody may mean megabytes."""
    (error,) = errors({**KEY, key: value})
    assert (
        error
        == f"`{key}` must be at least 1 MiB, since smaller files take longer to open than to read; found {value!r}"
    )


def test_the_size_of_files_is_said_once() -> None:
    twice = {"target_file_bytes": "64 MiB", "tblproperties": {"write.target-file-size-bytes": "1"}}
    (error,) = errors({**KEY, **twice})
    assert "say the same; keep `target_file_bytes`" in error


OTHER_VALUES: dict[str, Any] = {"hash_key": "line", "keep": None}
"""Values that differ from the default where `BUILT` has the default itself."""


@pytest.mark.parametrize(
    "key", [key for key in CONFIGURATION if key.name in BUILT and key.name not in UNCHANGED], ids=lambda key: key.name
)
def test_another_value_has_the_effect_that_the_table_of_keys_says(key: ConfigKey) -> None:
    beside, value = BUILT[key.name]
    given = {**beside, "primary_key": ["id", "line"]}
    before, after = given, {**given, key.name: OTHER_VALUES.get(key.name, value)}
    models = [Model(TableName("lake", "ods", "m"), "select 1", read_configuration(raw, "m")) for raw in (before, after)]
    layouts, rows = (
        [format_layout(model.config) for model in models],
        [compute_fingerprint(model, Upstreams()) for model in models],
    )
    assert (layouts[0] != layouts[1]) == (key.effect == "layout")
    assert (rows[0] != rows[1]) == (key.effect == "rows")


def test_a_row_of_a_table_with_history_is_a_version() -> None:
    config = read_configuration({**SCD2, "primary_key": ["b", "a"]}, "m")
    assert config.primary_key == ("b", "a", "_valid_from")
    assert (config.entity_key, config.hash_key, config.has_history) == (("b", "a"), "b", True)
    bitemporal = read_configuration({**SCD2_EVENTS, "valid_time": "t"}, "m")
    assert (bitemporal.primary_key, bitemporal.entity_key) == (("id", "_valid_from", "_recorded_from"), ("id",))
    plain = read_configuration({"primary_key": ["a", "_valid_from"]}, "m")
    assert (plain.entity_key, plain.has_history) == (("a", "_valid_from"), False)


@pytest.mark.parametrize("written", ["none", "None", "NONE"])
def test_without_a_key_events_are_appended(written: str) -> None:
    config = read_configuration({"primary_key": written, "input": "changes", "partition_by": ["days(at)"]}, "m")
    assert config.is_appended
    assert (config.primary_key, config.hash_key) == ((), None)
    assert Model(TableName("lake", "dwd", "m"), "", config).is_appended
    assert not read_configuration({"primary_key": [], "input": "changes"}, "m").is_appended


def test_a_null_that_dbt_has_dropped_says_that_there_is_no_key_and_nothing_says_nothing() -> None:
    assert read_configuration({"primary_key": None, "input": "changes"}, "m").is_appended
    assert select_user_keys({"input": "changes"}, {"primary_key", "input"}) == {
        "input": "changes",
        "primary_key": "none",
    }
    assert "is missing" in errors({"input": "changes"})[0]


def test_without_a_key_nothing_can_be_said_of_rows_by_their_key() -> None:
    messages = errors({"primary_key": "none", "merge": "on_read", "sequence_by": "lsn", "nodes": 4, "input": "changes"})
    assert [text.split("`")[1] for text in messages] == ["merge", "sequence_by", "nodes"]
    assert "needs `input: changes`" in errors({"primary_key": "none"})[0]
