"""Files that commands write about themselves, if the home of the JARs can only be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from arctic_runtime.spark.engine.java import jars, jvm
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.java.state_directory import get_state_directory
from tests.thresholds import STEADY

UNWRITABLE = "/dev/null/folder"
"""Not even the superuser can create it."""


def test_a_log_of_spark_needs_no_writable_home_of_the_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBT_ARCTIC_HOME", UNWRITABLE)
    monkeypatch.setenv("DBT_ARCTIC_STATE", str(tmp_path))
    with jvm.open_log(STEADY.engine) as log:
        assert Path(log.name).parent == tmp_path / "logs"
    assert Path(log.name).stat().st_mode & 0o777 == 0o600


def test_a_state_directory_that_can_not_be_written_is_reported_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[str] = []
    monkeypatch.setattr(PROCESS, "report", reports.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("DBT_ARCTIC_STATE", UNWRITABLE)
    with jvm.open_log(STEADY.engine) as log:
        assert Path(log.name).parent == tmp_path
    [report] = reports
    assert report == (
        f"{UNWRITABLE}/logs can't be written (Not a directory), so Spark's log is {log.name}; "
        "DBT_ARCTIC_STATE sets another folder"
    )


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DBT_ARCTIC_STATE": "/srv/state", "XDG_STATE_HOME": "/xdg", "HOME": "/home/me"}, "/srv/state"),
        ({"DBT_ARCTIC_HOME": "/opt/jars", "XDG_STATE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/dbt-arctic"),
        ({"DBT_ARCTIC_HOME": "/opt/jars", "HOME": "/home/me"}, "/home/me/.local/state/dbt-arctic"),
    ],
)
def test_the_state_directory_is_apart_from_the_home_of_the_jars(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DBT_ARCTIC_STATE", "DBT_ARCTIC_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert get_state_directory() == Path(expected)
    assert jars.get_cache_directory() != get_state_directory()


def test_a_user_without_a_home_has_a_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("DBT_ARCTIC_STATE", raising=False)
    monkeypatch.setattr(Path, "home", find_no_home)
    assert get_state_directory().name.startswith("dbt-arctic-")
