"""Partitions, sort orders and lags of other warehouses, in the terms of an arctic model."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.plan.config.config_readers import read_transforms
from arctic_runtime.plan.config.foreign_translations import (
    list_transforms,
    suggest_sort_key,
    translate_lag,
    translate_partition_by,
    translate_partitioned_by,
)

RANGE = {"start": 0, "end": 1000, "interval": 10}


@pytest.mark.parametrize(
    ("mapping", "transform"),
    [
        ({"field": "day"}, "days(day)"),
        ({"field": "day", "data_type": "date", "granularity": "month"}, "months(day)"),
        ({"field": "at", "data_type": "timestamp", "granularity": "hour"}, "hours(at)"),
        ({"field": "at", "data_type": "DATETIME", "granularity": "YEAR"}, "years(at)"),
        ({"field": "at", "data_type": "timestamp", "copy_partitions": True}, "days(at)"),
        ({"field": "the day"}, "days(`the day`)"),
        ({"field": "n", "data_type": "int64", "range": RANGE}, "truncate(10, n)"),
    ],
)
def test_a_mapping_of_bigquery_is_a_transform(mapping: dict[str, Any], transform: str) -> None:
    assert list_transforms(mapping) == [transform]
    assert read_transforms("partition_by", [transform])


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({}, "without a `field`"),
        ({"field": ["a"]}, "without a `field`"),
        ({"field": "n", "data_type": "int64"}, "needs a `range`"),
        ({"field": "n", "data_type": "int64", "range": {"start": 0, "end": 9, "interval": 0}}, "needs a `range`"),
        ({"field": "d", "granularity": "week"}, "must have the data type .* found None and 'week'"),
        ({"field": "d", "data_type": "string"}, "must have the data type"),
        ({"field": "d", "time_ingestion_partitioning": True}, "leaves the column d out of the table"),
    ],
)
def test_a_mapping_without_a_counterpart_is_an_error(mapping: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        translate_partition_by(mapping, {})


@pytest.mark.parametrize(
    ("text", "transforms"),
    [
        ("toYYYYMM(day)", ["months(day)"]),
        ("(toStartOfHour(at), region)", ["hours(at)", "region"]),
        (["toYear(day)", "toDate(at)"], ["years(day)", "days(at)"]),
        ("date_trunc('month', at)", ["months(at)"]),
    ],
)
def test_functions_of_dates_are_transforms(text: Any, transforms: list[str]) -> None:
    assert list_transforms(text) == transforms


@pytest.mark.parametrize(
    "value", ["day", ["day", "region"], "days(at)", ["bucket(4, id)", "truncate(2, v)"], "a, b", None, 7, [1]]
)
def test_columns_and_transforms_of_iceberg_are_no_foreign_setting(value: Any) -> None:
    assert translate_partition_by(value, {}) is None


def test_ranges_that_iceberg_cuts_elsewhere_are_refused_where_partitions_are_replaced() -> None:
    mapping = {"field": "n", "data_type": "int64", "range": {"start": 5, "end": 100, "interval": 10}}
    overwrite = {"materialized": "incremental", "incremental_strategy": "insert_overwrite"}
    with pytest.raises(ConfigError, match="begin at 5, which is no multiple of 10"):
        translate_partition_by(mapping, overwrite)
    for config in ({**overwrite, "incremental_strategy": "merge"}, {**overwrite, "materialized": "arctic"}):
        translation = translate_partition_by(mapping, config)
        assert translation is not None
        assert translation.keys == {"partition_by": ["truncate(10, n)"]}


def test_numbers_stand_before_columns() -> None:
    translation = translate_partitioned_by(["day(at)", "bucket(the id, 5)", "truncate(name, 3)", "region"], {})
    assert translation.keys == {"partition_by": ["day(at)", "bucket(5, `the id`)", "truncate(3, name)", "region"]}


@pytest.mark.parametrize("key", [{"primary_key": "ID"}, {"unique_key": ["id", "line"]}])
def test_a_bucket_of_the_key_is_left_to_the_nodes(key: dict[str, Any]) -> None:
    config = {"materialized": "arctic", **key}
    assert translate_partitioned_by(["bucket(id, 5)", "day"], config).keys == {"partition_by": ["day"]}
    assert translate_partitioned_by(["bucket(id, 5)"], config).keys == {}
    assert translate_partitioned_by(["bucket(id, 5)"], {"materialized": "table"}).keys == {
        "partition_by": ["bucket(5, id)"]
    }


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        ("day", ["day"]),
        (["b", "a"], ["b", "a"]),
        ("(b, a)", ["b", "a"]),
        (["Day", "day", "id"], ["Day", "id"]),
        ('"The Day"', ["The Day"]),
        (["größe"], ["größe"]),
    ],
)
def test_columns_are_a_sort_key_in_their_order(value: Any, columns: list[str]) -> None:
    assert suggest_sort_key(value, {}).keys == {"sort_key": columns}


@pytest.mark.parametrize(
    ("value", "config"),
    [
        (["date_trunc('day', at)", "id"], {}),
        ("to_date(at)", {}),
        ("tuple()", {}),
        ("day desc", {}),
        ({"a": "b"}, {}),
        ([1], {}),
        (True, {}),
        ("_seq", {}),
        ("op", {"exclude_columns": "op"}),
        ("Net", {"renamed_columns": {"net": "amount"}}),
    ],
)
def test_other_orders_are_no_sort_key(value: Any, config: dict[str, Any]) -> None:
    translation = suggest_sort_key(value, config)
    assert translation.keys == {}
    assert "not used as `sort_key`" in translation.remark


@pytest.mark.parametrize(
    ("text", "lag"),
    [("1 minute", "1m"), ("10 minutes", "10m"), ("2 HOURS", "2h"), ("1 day", "1d"), ("60 seconds", "60s")],
)
def test_a_lag_in_words_is_a_lag(text: str, lag: str) -> None:
    translation = translate_lag(text, {})
    assert translation is not None
    assert translation.keys == {"target_lag": lag}


def test_a_lag_of_what_reads_the_model_is_left_out() -> None:
    translation = translate_lag("DOWNSTREAM", {})
    assert translation is not None
    assert translation.keys == {}


@pytest.mark.parametrize("value", ["5m", "0s", "soon", 5, None])
def test_other_lags_are_left_to_their_reader(value: Any) -> None:
    assert translate_lag(value, {}) is None
