"""Settings of other adapters in a project: one message for all models, and one error for all that can't be honoured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.node_model import select_written_keys
from arctic_runtime.plan.config.foreign_settings import FOREIGN_SETTINGS
from arctic_runtime.plan.config.foreign_treatments import Refused
from dbt.adapters.arctic.materialize import foreign_config
from dbt.adapters.arctic.materialize.foreign_config import list_known_keys
from dbt.adapters.arctic.materialize.maintain import check_manifest

MERGE_SETTINGS = [
    setting.name
    for setting in FOREIGN_SETTINGS
    if isinstance(setting.dbt, Refused) and setting.dbt.because == "is not followed by incremental models here"
]


class Config(dict[str, Any]):
    @property
    def materialized(self) -> str:
        return str(self["materialized"])


def build_node(materialized: str = "incremental", name: str = "m", folder: str = "models", **config: Any) -> Any:
    written = Config(materialized=materialized, **config)
    node = SimpleNamespace(
        unique_id=f"model.shop.{name}",
        name=name,
        resource_type="model",
        original_file_path=f"{folder}/{name}.sql",
        config=written,
        database="lake",
        schema="s",
        alias=name,
    )
    node.to_dict = lambda omit_none: {"unique_id": node.unique_id, "config": dict(written)}
    return node


def build_arctic(name: str = "m", folder: str = "models", **config: Any) -> Any:
    return build_node("arctic", name, folder, **{"primary_key": "id", **config})


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    fired: list[str] = []
    monkeypatch.setattr(foreign_config, "warn_or_error", lambda event: fired.append(event.base_msg))
    foreign_config.warn_once.cache_clear()
    return fired


def test_all_settings_are_in_one_message_with_their_models(messages: list[str]) -> None:
    nodes = [build_arctic(f"m{n}", "models/marts", transient=True) for n in range(4)]
    nodes += [build_arctic("orders", cluster_by=["day", "id"]), build_node("table", "t", file_format="delta")]
    check_manifest(nodes)
    check_manifest(nodes)
    assert [message.splitlines()[1:] for message in messages] == [
        [
            "  - `file_format` (Spark, Databricks, Trino): every table is an Iceberg table of Parquet files [t]",
            "  - `cluster_by` (Snowflake, BigQuery): used as `sort_key` [orders]",
            "  - `transient` (Snowflake): a table is durable, and stays until it is dropped [4 in models/marts]",
        ]
    ]


def test_grants_and_a_format_version_of_a_whole_project_are_no_obstacle(messages: list[str]) -> None:
    because = "an Iceberg catalog keeps no grants: access is set in the catalog or the storage"
    shared = {"grants": {"select": ["reader"]}, "tblproperties": {"format-version": "2"}}
    check_manifest([build_arctic("a", **shared), build_node("table", "t", **shared)])
    assert [message.splitlines()[1:] for message in messages] == [
        [
            "  - `tblproperties` (Spark, Databricks): `format-version` is used as `format_version` [a]",
            f"  - `grants` (dbt): {because} [a, t]",
        ]
    ]
    written = select_written_keys(build_arctic("a", **shared).to_dict(omit_none=True))
    assert written == {"materialized": "arctic", "primary_key": "id", "format_version": 2}
    with pytest.raises(CompilationError, match=r"`grants` \(dbt\)"):
        check_manifest([build_node("table", "t", on_foreign_config="error", **shared)])


def test_a_project_without_such_settings_is_told_nothing(messages: list[str]) -> None:
    check_manifest([build_arctic(file_format="iceberg", sort_key="day", partition_by=["days(at)"], target_lag="5m")])
    check_manifest([build_node("table", location_root="/lake", options={"a": "b"}, partition_by=["day"])])
    check_manifest([build_node("of_a_user", engine="SummingMergeTree", transient=True)])
    assert messages == []


def test_all_that_cant_be_honoured_is_one_error(messages: list[str]) -> None:
    nodes = [
        build_arctic("orders", skip_matched_step=True, transient=True),
        build_node("view", "shown", row_access_policy="p on (id)"),
        build_node("table", "kept", partition_expiration_days=7),
    ]
    with pytest.raises(CompilationError) as raised:
        check_manifest(nodes)
    lines = str(raised.value).splitlines()
    places = [line.split("`")[0] for line in lines if line.startswith("    - ")]
    assert places == [
        "    - models/orders.sql: model.shop.orders: ",
        "    - models/shown.sql: model.shop.shown: ",
        "    - models/kept.sql: model.shop.kept: ",
    ]
    assert sum("what to do: " in line for line in lines) == 3
    assert "        found: skip_matched_step: True" in lines
    assert messages == []


def test_an_arctic_model_is_refused_by_itself_too() -> None:
    with pytest.raises(ConfigError, match=r"model.shop.m: `matched_condition` has no counterpart") as raised:
        select_written_keys(build_arctic(matched_condition="a > b").to_dict(omit_none=True))
    assert raised.value.actual == "matched_condition: 'a > b'"
    assert raised.value.fix


def test_the_models_that_ask_for_it_may_have_no_such_setting(messages: list[str]) -> None:
    nodes = [
        build_arctic("strict", on_foreign_config="error", transient=True),
        build_arctic("lenient", on_foreign_config="warn", transient=True),
    ]
    with pytest.raises(CompilationError, match=r"`transient` .* \[strict\]\n.*set `on_foreign_config: warn`"):
        check_manifest(nodes)
    assert messages == []
    check_manifest(nodes[1:])
    assert len(messages) == 1


def test_another_value_of_on_foreign_config_is_an_error() -> None:
    with pytest.raises(CompilationError, match="`on_foreign_config` must be one of warn, error; found 'fail'"):
        check_manifest([build_arctic(on_foreign_config="fail")])


def test_a_partition_without_a_counterpart_names_model_and_file() -> None:
    with pytest.raises(CompilationError, match=r"models/m.sql: model.shop.m: `partition_by` of int64 needs a `range`"):
        check_manifest([build_node("table", partition_by={"field": "n", "data_type": "int64"})])


@pytest.mark.parametrize("name", MERGE_SETTINGS)
def test_an_incremental_model_is_refused_a_setting_that_merges_dont_follow(name: str) -> None:
    config = {"unique_key": "id", name: "1 = 0", "incremental_strategy": "merge"}
    with pytest.raises(CompilationError, match=rf"models/m.sql: model.shop.m: `{name}` .* is not followed"):
        check_manifest([build_node(**{**config, **STRATEGIES.get(name, {})})])
    check_manifest([build_node(**{**config, name: None}), build_node(**{**config, name: False})])


STRATEGIES = {"overwrite_columns": {"unique_key": None, "incremental_strategy": "insert_overwrite"}}


def test_a_setting_of_merges_says_nothing_of_a_table(messages: list[str]) -> None:
    check_manifest([build_node("table", matched_condition="1 = 0")])
    assert messages == []


@pytest.mark.parametrize(
    ("typo", "key"),
    [
        ("primay_key", "primary_key"),
        ("sort_keys", "sort_key"),
        ("transiant", "transient"),
        ("on_foreign_confg", "on_foreign_config"),
        ("taggs", "tags"),
    ],
)
def test_a_typo_stays_an_error_with_the_nearest_key(typo: str, key: str) -> None:
    with pytest.raises(CompilationError, match=f"unknown key `{typo}`; did you mean `{key}`"):
        check_manifest([build_arctic(**{typo: "x"})])


def test_meta_is_left_as_it_is(messages: list[str]) -> None:
    check_manifest([build_arctic(meta={"transient": True, "skip_matched_step": True})])
    assert messages == []


def test_the_configuration_that_is_left_has_only_known_keys() -> None:
    foreign = {"cluster_by": "day", "transient": True, "on_foreign_config": "warn", "tags": ["a"]}
    keys = select_written_keys({"unique_id": "m", "config": {"materialized": "arctic", "primary_key": "id", **foreign}})
    assert keys == {"materialized": "arctic", "primary_key": "id", "sort_key": ["day"], "tags": ["a"]}
    assert set(keys) - {"primary_key", "sort_key"} <= list_known_keys()
