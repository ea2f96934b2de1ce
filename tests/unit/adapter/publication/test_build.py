"""Which branch a command reads, and which files of branches a build removes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.profile import Profile
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.publication.build import BRANCH_COMMANDS, open_branch, remove_old_branches


def test_a_command_that_reads_gets_the_branch(tmp_path: Path) -> None:
    profile = Profile.for_embedded(tmp_path / "lake")
    file = tmp_path / "7-a.db"
    file.touch()
    opened = open_branch(profile, file, "show")
    assert opened.sqlite_file == file
    assert opened.is_branch
    assert opened.catalog_properties["warehouse"] == profile.catalog_properties["warehouse"]


@pytest.mark.parametrize("command", sorted(BRANCH_COMMANDS))
def test_a_build_does_not_stand_on_a_branch(tmp_path: Path, command: str) -> None:
    (tmp_path / "7-a.db").touch()
    with pytest.raises(DbtRuntimeError, match="can't write to the branch"):
        open_branch(Profile.for_embedded(tmp_path / "lake"), tmp_path / "7-a.db", command)


def test_a_missing_branch(tmp_path: Path) -> None:
    with pytest.raises(DbtRuntimeError, match="names no branch"):
        open_branch(Profile.for_embedded(tmp_path / "lake"), tmp_path / "none.db", "show")


def test_branches_of_running_builds_stay(tmp_path: Path) -> None:
    parent = os.getppid()
    for name in (f"{parent}-a.db", f"{os.getpid()}-b.db", "999999999-c.db", "999999999-c.db-wal", "x.db"):
        (tmp_path / name).touch()
    remove_old_branches(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [f"{parent}-a.db"]


@pytest.mark.parametrize("publish", ["model", "build"])
def test_publish(tmp_path: Path, publish: str) -> None:
    ArcticCredentials(database="lake", schema="dws", warehouse=str(tmp_path), publish=publish)


def test_unknown_publish(tmp_path: Path) -> None:
    with pytest.raises(DbtRuntimeError, match="`publish` is 'all'"):
        ArcticCredentials(database="lake", schema="dws", warehouse=str(tmp_path), publish="all")


def test_publish_with_another_catalog() -> None:
    with pytest.raises(DbtRuntimeError, match="publish: build"):
        ArcticCredentials(
            database="lake", schema="dws", catalog_config={"type": "rest", "uri": "http://x"}, publish="build"
        )
