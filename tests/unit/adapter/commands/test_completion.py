"""Completion in a shell: bash completes by the script, and names come from the project that a command has kept."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.arctic import cli, command_line
from dbt.adapters.arctic.commands import completion
from dbt.adapters.arctic.project.cache.known_names import FILE
from tests.unit.adapter.test_command_line import PRINT_LOADED

NAMES = {"models": ["dwd_orders", "dwd_sales", "ods_orders"], "sources": ["shop"]}

COMPLETE = """
source "$SCRIPT"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shtab_arctic
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Does what bash does at a Tab after the words `$@`."""


def write_script(shell: str) -> str:
    (script,) = completion.perform_command(argparse.Namespace(shell=shell)).lines
    return script


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `arctic` and the script of bash."""
    folder = tmp_path_factory.mktemp("programs")
    program = folder / "arctic"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dbt.adapters.arctic.command_line "$@"\n')
    program.chmod(0o755)
    (folder / "arctic.bash").write_text(write_script("bash"))
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a project whose names an earlier command has kept."""
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / FILE).write_text(json.dumps({"names": NAMES}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complete_in_bash(programs: Path, folder: Path, *words: str) -> list[str]:
    """The words that bash offers for the last word; fails if it prints an error."""
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SCRIPT": str(programs / "arctic.bash"),
    }
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "--norc", "-uc", COMPLETE, "bash", "arctic", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["sta"], ["status"]),
        (["status", "--part"], ["--partition"]),
        (["sql", "--engine", ""], ["duckdb", "spark"]),
        (["schema", "mo"], ["models"]),
        (["status", "dwd"], ["dwd_orders", "dwd_sales"]),
        (["verify", "dwd_sales", "o"], ["ods_orders"]),
        (["explain", "--json", ""], NAMES["models"]),
        (["run", "--select", "ods"], ["ods_orders"]),
        (["ingest", ""], ["shop"]),
        (["lookup", "dwd_orders", ""], []),
        (["status", "--project-dir", "tar"], ["target"]),
    ],
)
def test_bash_completes_commands_options_and_names(
    programs: Path, project: Path, words: list[str], offered: list[str]
) -> None:
    assert complete_in_bash(programs, project, *words) == offered


def test_outside_of_a_project_bash_offers_no_names_and_prints_no_error(programs: Path, tmp_path: Path) -> None:
    assert complete_in_bash(programs, tmp_path, "status", "") == []
    assert complete_in_bash(programs, tmp_path, "status", "--tr") == ["--tree"]


def test_a_name_that_a_shell_would_expand_is_not_offered(programs: Path, project: Path) -> None:
    """A project of somebody else may have such a file, and nothing of it is to be carried out."""
    names = {"models": ["$(touch made)", "`touch made`", "a b", "x;y", "\x1b[2J", "größe", "dws-sales.v2"]}
    (project / "target" / FILE).write_text(json.dumps({"names": names}))
    assert complete_in_bash(programs, project, "status", "") == ["größe", "dws-sales.v2"]
    assert not (project / "made").exists()


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_has_a_script_with_all_commands_that_asks_for_names(shell: str) -> None:
    script = write_script(shell)
    expected = (*cli.list_command_names(), "arctic completion models", "arctic completion sources")
    assert [text for text in expected if text not in script] == []


@pytest.mark.parametrize(
    "content",
    ["", "[", "[]", "{}", '{"names": []}', '{"names": {"models": null}}', '{"names": {"models": [1]}}', "[" * 100_000],
)
def test_a_file_that_cant_be_read_has_no_names(project: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "target" / FILE).write_text(content)
    assert command_line.main(["completion", "models"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("written", ["target-path: {", "- a", "target-path: built"])
def test_the_folder_of_the_project_is_the_one_that_dbt_writes_to(
    project: Path, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "dbt_project.yml").write_text(written)
    (project / "built").mkdir()
    (project / "built" / FILE).write_text(json.dumps({"names": {"models": ["elsewhere"]}}))
    assert command_line.main(["completion", "models"]) == 0
    expected = {"target-path: {": "", "- a": "\n".join(NAMES["models"]), "target-path: built": "elsewhere"}
    assert capsys.readouterr().out.strip() == expected[written]


def test_names_are_printed_without_dbt_and_the_runtime(project: Path) -> None:
    environment: Any = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"{PRINT_LOADED}else:\n    print(*sys.modules, file=sys.stderr)"]
    ended = subprocess.run(
        [*command, "completion", "sources"], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "shop\n"
    loaded = ended.stderr.split()
    assert not [name for name in loaded if name.startswith(("arctic_runtime", "dbt.adapters.arctic.commands"))]
    assert not {"dbt.cli", "pyarrow", "pyiceberg", "shtab"} & set(loaded)
