"""Targets of a profile: refused with a reason, completed, and shown without secrets."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from dbt.config.profile import Profile
from dbt_common.exceptions import DbtRuntimeError

from dbt import flags
from dbt.adapters.arctic import ArcticCredentials

REST = {"type": "rest", "uri": "https://catalog", "token": "hush"}


@pytest.fixture(autouse=True)
def flags_of_dbt() -> None:
    """dbt's flags, which its profiles ask for and its commands set."""
    flags.set_from_args(Namespace(), None)


def credentials(**given: Any) -> ArcticCredentials:
    data = ArcticCredentials.translate_aliases({"schema": "dwd", **given})
    ArcticCredentials.validate(data)
    return ArcticCredentials.from_dict(data)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "neither `warehouse` nor `catalog_config`"),
        ({"warehouse": "w", "schema": ""}, "`schema` is missing"),
        ({"warehouse": "w", "host": "h"}, "there is no host"),
        ({"warehose": "w"}, "did you mean 'warehouse'"),
        ({"warehouse": "w", "method": "sesion"}, "session"),
        ({"warehouse": "w", "catalog_config": REST}, "contradict"),
        ({"method": "connect", "catalog_config": REST}, "url"),
        ({"method": "connect", "url": "sc://h", "warehouse": "w"}, "whose catalog is on this machine"),
        ({"method": "connect", "url": "sc://h", "master": "local[2]"}, "`master` means nothing"),
        ({"warehouse": "w", "url": "sc://h"}, "method: connect"),
        ({"catalog_config": {"type": "rset", "uri": "u"}}, "did you mean 'rest'"),
        ({"warehouse": "w", "catalog": "a b"}, "name can't be used"),
    ],
)
def test_a_target_that_can_not_work_is_refused_with_the_reason(given: dict[str, Any], said: str) -> None:
    with pytest.raises(DbtRuntimeError) as refused:
        credentials(**given)
    assert said in str(refused.value)


def test_a_relative_warehouse_counts_from_the_project(tmp_path: Path) -> None:
    profile = credentials(warehouse="./warehouse").to_profile(tmp_path)
    assert profile.catalog_properties["warehouse"] == str(tmp_path / "warehouse")
    assert profile.catalog == "lake"


def test_catalog_is_dbts_database() -> None:
    assert credentials(warehouse="w", catalog="ice").database == "ice"


def test_nothing_secret_is_shown() -> None:
    target = credentials(method="connect", url="sc://h:15002/;token=hush", catalog_config=REST)
    shown = dict(target.connection_info(with_aliases=True))
    assert "hush" not in str(shown)
    assert shown["catalog_config"]["uri"] == "https://catalog"
    assert (shown["database"], shown["schema"], shown["method"]) == ("lake", "dwd", "connect")


def test_a_warehouse_may_be_used_by_a_server_that_is_kept_on_this_machine(tmp_path: Path) -> None:
    target = credentials(method="connect", url="local", warehouse="w", master="local[2]")
    profile = target.to_profile(tmp_path)
    assert profile.is_kept
    assert (profile.master, profile.catalog_properties["warehouse"]) == ("local[2]", str(tmp_path / "w"))


@pytest.mark.parametrize("written", ["Spark", "", "data bricks"])
def test_a_target_type_is_the_name_of_an_adapter(written: str) -> None:
    with pytest.raises(DbtRuntimeError, match="`target_type` is the name of an adapter"):
        credentials(warehouse="w", target_type=written)


@pytest.mark.parametrize(("given", "shown"), [({"target_type": "databricks"}, "databricks"), ({}, "arctic")])
def test_jinja_shows_the_target_type_and_dbt_still_finds_the_adapter(given: dict[str, str], shown: str) -> None:
    target = Profile("shop", "dev", 1, credentials(warehouse="w", **given))
    assert target.to_target_dict()["type"] == shown
    assert target.credentials.type == "arctic"


def test_a_target_type_brings_the_keys_of_such_a_target() -> None:
    shown = Profile("shop", "dev", 1, credentials(warehouse="w", target_type="databricks")).to_target_dict()
    assert (shown["http_path"], shown["host"], shown["catalog"]) == ("", "", shown["database"])
    bigquery = Profile("shop", "dev", 1, credentials(warehouse="w", target_type="bigquery")).to_target_dict()
    assert (bigquery["project"], bigquery["dataset"]) == (bigquery["database"], bigquery["schema"])
    snowflake = Profile("shop", "dev", 1, credentials(warehouse="w", target_type="snowflake")).to_target_dict()
    assert snowflake["warehouse"] == "w"
    assert "http_path" not in Profile("shop", "dev", 1, credentials(warehouse="w")).to_target_dict()


def test_a_time_keeps_the_spark_of_a_local_master_and_nothing_keeps_it_in_ci(tmp_path: Path) -> None:
    def keep(**given: Any) -> float:
        return credentials(warehouse="w", **given).to_profile(tmp_path).keep_alive_seconds

    assert (keep(keep_alive="2h"), keep(keep_alive=0), keep(), keep(master="spark://host:7077")) == (7200, 0, 0, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "connect", "url": "local"}, "method: session and a local master"),
        ({"master": "spark://host:7077"}, "found: method: session, master: spark://host:7077"),
    ],
)
def test_a_time_for_a_spark_that_the_command_does_not_start_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(DbtRuntimeError, match=f"(?s)`keep_alive` keeps only.*{said}"):
        credentials(warehouse="w", keep_alive="15m", **given)
    assert credentials(warehouse="w", keep_alive=0, **given)


def test_a_time_that_is_none_is_refused_when_the_profile_is_read() -> None:
    with pytest.raises(DbtRuntimeError, match="`keep_alive` must be a time"):
        credentials(warehouse="w", keep_alive="soon")
