"""The profile of a target, read without dbt, or left to dbt."""

from __future__ import annotations

from pathlib import Path

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile
from arctic_runtime.target_settings import UnreadableSettings
from arctic_runtime.thresholds import Thresholds
from dbt.adapters.arctic.project.cache.target_profile import read_target_profile

VARIABLES = {"PLACE": "here", "EMPTY": "", "ODD": "{{ env_var('PLACE') }}"}


def read_profile(folder: Path, target: str) -> Profile:
    file = folder / "profiles.yml"
    file.write_text(f"{{shop: {{outputs: {{dev: {{type: arctic, schema: dws, {target}}}}}}}}}")
    return read_target_profile(file, "shop", "dev", folder, VARIABLES, Thresholds())


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("here", "here"),
        ("{{ env_var('PLACE') }}", "here"),
        ("{{env_var(\"PLACE\",'x')}}/{{ env_var( 'NONE' , 'there' ) }}", "here/there"),
        ("a{{ env_var('EMPTY', 'x') }}b", "ab"),
        ("{{ env_var('ODD') }}", "{{ env_var('PLACE') }}"),
    ],
)
def test_a_variable_is_replaced_by_its_value(tmp_path: Path, written: str, value: str) -> None:
    quoted = written.replace("'", "''")
    assert read_profile(tmp_path, f"catalog: ice, warehouse: '{quoted}'") == Profile.for_embedded(
        tmp_path / value, catalog="ice"
    )


@pytest.mark.parametrize(
    "warehouse",
    [
        "{{ env_var('NONE') }}",
        "{{ env_var('PLACE') | upper }}",
        "{{ env_var('PLACE' ~ 'S') }}",
        "{{ env_var('PLACE', \"it's\") }}",
        "{{ var('x') }}",
        "{% if true %}x{% endif %}",
        "{# nothing #}x",
    ],
)
def test_other_jinja_is_left_to_dbt(tmp_path: Path, warehouse: str) -> None:
    quoted = warehouse.replace("'", "''")
    with pytest.raises(UnreadableSettings):
        read_profile(tmp_path, f"warehouse: '{quoted}'")


@pytest.mark.parametrize("text", ["", "[]", "{shop: 1}", "{shop: {outputs: {prod: {}}}}", "{", "\x00"])
def test_a_file_without_the_target_is_left_to_dbt(tmp_path: Path, text: str) -> None:
    (tmp_path / "profiles.yml").write_text(text)
    with pytest.raises(UnreadableSettings):
        read_target_profile(tmp_path / "profiles.yml", "shop", "dev", tmp_path, {}, Thresholds())


def test_settings_that_contradict_each_other_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_profile(tmp_path, "warehouse: x, url: 'sc://here'")
