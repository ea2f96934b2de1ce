"""Settings of other adapters are ignored where no row changes, translated where they have a counterpart, or refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.plan.config.configuration import KEYS
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.config.foreign_config import read_on_foreign_config, take_foreign_settings
from arctic_runtime.plan.config.foreign_settings import (
    FOREIGN_SETTINGS,
    SETTINGS_BY_NAME,
    describe_foreign_settings,
)
from arctic_runtime.plan.config.foreign_treatments import Ignored, MacroSetting, Refused, Translated

KEY = {"materialized": "arctic", "primary_key": "id"}

TRANSLATIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "partition_by": ({"field": "day"}, {"partition_by": ["days(day)"]}),
    "partitioned_by": (["month(day)", "region"], {"partition_by": ["month(day)", "region"]}),
    "cluster_by": (["day", "region"], {"sort_key": ["day", "region"]}),
    "liquid_clustered_by": ("day", {"sort_key": ["day"]}),
    "zorder": ("day, region", {"sort_key": ["day", "region"]}),
    "sort": (["day"], {"sort_key": ["day"]}),
    "order_by": ("(day, `the region`)", {"sort_key": ["day", "the region"]}),
    "sorted_by": ('"Day"', {"sort_key": ["Day"]}),
    "target_lag": ("10 minutes", {"target_lag": "10m"}),
    "tblproperties": ({"format-version": "2"}, {"format_version": 2}),
}
"""Each translated setting → a value, and the keys that it becomes."""

REFUSALS: dict[str, tuple[Any, dict[str, Any]]] = {
    "partition_expiration_days": (30, {}),
    "ttl": ("day + interval 1 month", {}),
    "engine": ("ReplicatedSummingMergeTree(n)", {}),
    "begin": ("2024-01-01", {"incremental_strategy": "microbatch"}),
    "sql_header": ("set x = 1;", {}),
    "merge_update_columns": (["amount"], {}),
    "merge_exclude_columns": (["id", "created_at"], {}),
    "incremental_predicates": (["t.day > '2024-01-01'"], {}),
    "predicates": ("t.day > '2024-01-01'", {}),
    "skip_matched_step": (True, {}),
    "matched_condition": ("s.at > t.at", {}),
    "skip_not_matched_step": (True, {}),
    "not_matched_condition": ("s.id > 1", {}),
    "not_matched_by_source_action": ("delete", {}),
    "not_matched_by_source_condition": ("t.id > 1", {}),
    "merge_with_schema_evolution": (True, {}),
    "update_condition": ("src.id > 1", {}),
    "insert_condition": ("src.id > 1", {}),
    "delete_condition": ("src.is_deleted", {}),
    "merge_update_columns_rules": ({"tags": "append"}, {}),
    "merge_update_columns_default_rule": ("append", {}),
    "merge_update_condition": ("s.id > 1", {}),
    "merge_insert_condition": ("s.id > 1", {}),
    "merge_update_set_expressions": ({"n": "t.n + s.n"}, {}),
    "merge_on_using_columns": (["id"], {}),
    "merge_returning_columns": (["id"], {}),
    "merge_clauses": ({"when_matched": []}, {}),
    "overwrite_columns": (["id"], {}),
    "immutable_where": ("day < '2024-01-01'", {}),
    "on_table_exists": ("skip", {}),
    "row_access_policy": ("p on (region)", {}),
    "row_filter": ({"function": "f"}, {}),
}
"""Each refused setting → a value, and the keys beside it that it needs to be refused."""

HARMLESS: dict[str, Any] = {
    "engine": "ReplicatedMergeTree('/path', '{replica}')",
    "begin": "2024-01-01",
    "merge_exclude_columns": "ID",
    "on_table_exists": "rename",
}
"""Values of refused settings that change no row; of the others these are the values that ask for nothing."""

IGNORED = [setting.name for setting in FOREIGN_SETTINGS if isinstance(setting.arctic, Ignored)]


def has_treatment(kind: type) -> set[str]:
    return {setting.name for setting in FOREIGN_SETTINGS if isinstance(setting.arctic, kind)}


def test_every_setting_is_there_once_and_has_a_case() -> None:
    assert len(SETTINGS_BY_NAME) == len(FOREIGN_SETTINGS)
    assert set(TRANSLATIONS) == has_treatment(Translated)
    assert set(REFUSALS) == has_treatment(Refused)
    assert not has_treatment(MacroSetting)
    assert {*KEYS} & {*SETTINGS_BY_NAME} == {"partition_by", "target_lag", "tblproperties"}


@pytest.mark.parametrize("value", ["x", True, 7, ["a", "b"], {"a": "b"}], ids=str)
def test_an_ignored_setting_leaves_nothing_but_a_remark(value: Any) -> None:
    for name in IGNORED:
        taken = take_foreign_settings({**KEY, name: value})
        assert taken.keys == KEY
        assert [(remark.setting, bool(remark.text)) for remark in taken.remarks] == [(name, True)]
        assert taken.refusals == ()


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_a_translated_setting_becomes_keys_with_a_remark(name: str) -> None:
    value, keys = TRANSLATIONS[name]
    taken = take_foreign_settings({**KEY, name: value})
    assert taken.keys == {**KEY, **keys}
    assert [remark.setting for remark in taken.remarks] == [name]
    assert read_configuration(taken.keys, "m", ("materialized",)) == read_configuration(
        {**KEY, **keys}, "m", ("materialized",)
    )


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_setting_says_why_and_what_to_do(name: str) -> None:
    value, beside = REFUSALS[name]
    taken = take_foreign_settings({**KEY, **beside, name: value})
    assert [(refusal.setting, refusal.value) for refusal in taken.refusals] == [(name, value)]
    assert taken.refusals[0].because
    assert taken.refusals[0].fix


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_setting_that_asks_for_nothing_is_left_out(name: str) -> None:
    for value in (None, False, [], HARMLESS.get(name)):
        taken = take_foreign_settings({**KEY, name: value})
        assert taken.keys == KEY
        assert taken.refusals == ()


def test_an_absent_value_is_no_setting() -> None:
    taken = take_foreign_settings({**dict.fromkeys(SETTINGS_BY_NAME), **KEY})
    assert {key: value for key, value in taken.keys.items() if value is not None} == KEY
    assert (taken.remarks, taken.refusals) == ((), ())


@pytest.mark.parametrize(
    ("name", "value"),
    [("file_format", "iceberg"), ("table_format", "ICEBERG"), ("table_type", "iceberg"), ("format", "parquet")],
)
def test_a_value_that_says_what_holds_anyway_has_no_remark(name: str, value: str) -> None:
    assert take_foreign_settings({**KEY, name: value}).remarks == ()


VALUES = st.one_of(st.booleans(), st.integers(), st.text(), st.lists(st.text()), st.dictionaries(st.text(), st.text()))
OWN = {"sort_key": "day", "partition_by": ["days(at)"], "target_lag": "5m", "nodes": 4}


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from(IGNORED), VALUES), st.sets(st.sampled_from(sorted(OWN))))
def test_any_mixture_of_ignored_settings_gives_the_configuration_without_them(
    foreign: dict[str, Any], own: set[str]
) -> None:
    written = {**KEY, **{key: OWN[key] for key in own}}
    taken = take_foreign_settings({**foreign, **written})
    assert read_configuration(taken.keys, "m", ("materialized",)) == read_configuration(written, "m", ("materialized",))


@pytest.mark.parametrize(("name", "value"), [("cluster_by", ["day"]), ("partitioned_by", ["day"])])
def test_a_key_of_an_arctic_model_is_preferred(name: str, value: Any) -> None:
    own = {**KEY, "sort_key": "at", "partition_by": ["days(at)"]}
    taken = take_foreign_settings({**own, name: value})
    assert taken.keys == own
    assert "not used, since there is" in taken.remarks[0].text


@pytest.mark.parametrize(
    ("own", "keys", "remark"),
    [
        ({}, {"format_version": 2}, "used as `format_version`"),
        ({"format_version": 3}, {"format_version": 3}, "not used, since there is a `format_version`"),
    ],
)
def test_a_format_version_among_properties_is_the_models_own(
    own: dict[str, Any], keys: dict[str, Any], remark: str
) -> None:
    others = {"write.parquet.compression-codec": "zstd"}
    taken = take_foreign_settings({**KEY, **own, "tblproperties": {"format-version": "2", **others}})
    assert taken.keys == {**KEY, "tblproperties": others, **keys}
    assert remark in taken.remarks[0].text


def test_properties_without_a_format_version_are_left_as_they_are() -> None:
    written = {**KEY, "tblproperties": {"write.parquet.compression-codec": "zstd"}}
    assert take_foreign_settings(written).keys == written
    assert take_foreign_settings(written).remarks == ()


def test_a_format_version_that_no_base_can_have_stays_an_error() -> None:
    for version in ("1", "newest"):
        taken = take_foreign_settings({**KEY, "tblproperties": {"format-version": version}})
        with pytest.raises(ConfigError, match="`format_version` must be one of"):
            read_configuration(taken.keys, "m", ("materialized",))


def test_the_first_of_two_suggestions_is_used() -> None:
    taken = take_foreign_settings({"zorder": "b", "cluster_by": "a", **KEY})
    assert taken.keys == {**KEY, "sort_key": ["a"]}
    assert [remark.text for remark in taken.remarks] == ["used as `sort_key`", "not used, since there is a `sort_key`"]


def test_what_the_macros_of_dbts_own_models_follow_stays_without_a_remark() -> None:
    own = {
        "materialized": "incremental",
        "location_root": "/lake",
        "options": {"a": "b"},
        "incremental_strategy": "append",
    }
    taken = take_foreign_settings(own)
    assert taken.keys == own
    assert (taken.remarks, taken.refusals) == ((), ())


@pytest.mark.parametrize(
    ("name", "value", "refused", "accepted"),
    [
        ("skip_matched_step", True, "incremental", "table"),
        ("target_alias", "t", "incremental", "table"),
        ("partitions", ["current_date"], "incremental", "table"),
        ("inserts_only", True, "incremental", "table"),
        ("on_table_exists", "skip", "table", "incremental"),
        ("ttl", "day", "seed", "view"),
        ("engine", "CollapsingMergeTree(s)", "snapshot", "view"),
        ("partition_expiration_days", 3, "incremental", "view"),
    ],
)
def test_dbts_own_models_are_refused_what_their_materialization_would_do(
    name: str, value: Any, refused: str, accepted: str
) -> None:
    assert take_foreign_settings({"materialized": refused, name: value}).refusals
    assert not take_foreign_settings({"materialized": accepted, name: value}).refusals


@pytest.mark.parametrize("kind", ["table", "view", "incremental", "seed", "snapshot", "arctic"])
@pytest.mark.parametrize("name", ["row_filter", "row_access_policy"])
def test_who_sees_which_rows_is_never_passed_over(kind: str, name: str) -> None:
    assert take_foreign_settings({**KEY, "materialized": kind, name: "f"}).refusals


def test_overwritten_columns_are_refused_where_partitions_are_overwritten() -> None:
    for strategy, is_refused in (("insert_overwrite", True), ("merge", False)):
        config = {"materialized": "incremental", "incremental_strategy": strategy, "overwrite_columns": ["a"]}
        assert bool(take_foreign_settings(config).refusals) == is_refused


def test_on_foreign_config_is_read_and_left_out() -> None:
    assert read_on_foreign_config({}) == "warn"
    assert read_on_foreign_config({"on_foreign_config": "error"}) == "error"
    assert take_foreign_settings({**KEY, "on_foreign_config": "error"}).keys == KEY
    with pytest.raises(ConfigError, match="did you mean `error`"):
        read_on_foreign_config({"on_foreign_config": "errors"})


def test_the_documentation_names_every_setting_once_and_every_treatment_in_one_row() -> None:
    _, _, *lines = describe_foreign_settings().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines]
    named = [name for first, *_ in cells for name in re.findall(r"`(\w+)`", first)]
    assert sorted(named) == sorted(setting.name for setting in FOREIGN_SETTINGS)
    treatments = [tuple(others) for _, *others in cells]
    assert len(treatments) == len(set(treatments))
