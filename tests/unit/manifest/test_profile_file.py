"""The file profile.yml, for commands that work on a manifest without dbt."""

from __future__ import annotations

from pathlib import Path

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.profile_file import read_profile_file


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "profile.yml"
    file.write_text(text)
    return file


def test_the_keys_of_a_target_describe_the_catalog_and_spark(tmp_path: Path) -> None:
    file = write(tmp_path, "type: arctic\nwarehouse: ./wh\ncatalog: shop\nthreads: 4\nschemas: {main: dwd}\n")
    read = read_profile_file(file)
    assert read.profile.catalog == "shop"
    assert read.profile.sqlite_file == tmp_path / "wh" / "catalog.db"
    assert (read.threads, read.schemas) == (4, {"main": "dwd"})


def test_the_settings_of_the_service_are_those_of_profiles_yml(tmp_path: Path) -> None:
    file = write(tmp_path, "warehouse: w\nserve: {schema: dwd, http: {token: \"{{ env_var('T') }}\"}}\n")
    target = read_profile_file(file, {"T": "secret"})
    assert target.serve == {"schema": "dwd", "http": {"token": "secret"}}
    assert "secret" not in repr(target)


def test_secrets_come_from_the_environment(tmp_path: Path) -> None:
    file = write(
        tmp_path, "catalog_config: {type: rest, uri: http://c, token: \"{{ env_var('T') }}\"}\nkeep_alive: 0\n"
    )
    assert read_profile_file(file, {"T": "secret"}).profile.catalog_properties["token"] == "secret"
    with pytest.raises(ConfigError, match="variable that is not set"):
        read_profile_file(file, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("warehouse: w\nschema: dwd", "`schema` means nothing without dbt"),
        ("warehouse: w\npublish: build", "published by its own run"),
        ("warehous: w", "did you mean 'warehouse'"),
        ("type: spark", "another adapter"),
        ("threads: 4", "neither `warehouse` nor `catalog_config`"),
        ("warehouse: w\nthreads: many", "threads"),
        ("warehouse: w\nschemas: dwd", "schemas"),
        ("warehouse: w\nserve: true", "`serve` is no mapping"),
        ("- warehouse", "no mapping"),
        ("warehouse: '{{ var(1) }}'", "needs dbt"),
    ],
)
def test_a_profile_that_can_not_be_used_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read_profile_file(write(tmp_path, text))


def test_a_missing_profile_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--profile"):
        read_profile_file(tmp_path / "profile.yml")
