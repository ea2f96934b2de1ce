"""The workflows of docs/ci.md: whole, the same on both services, and with commands that exist."""

from __future__ import annotations

import shlex

from arctic_runtime.operations.registry import get_operation
from dbt.adapters.arctic.cli import build_parser
from tests.workflows import (
    ROOT,
    list_blocks,
    list_github_commands,
    list_gitlab_commands,
    load_github,
    load_gitlab,
)


def test_each_step_of_github_uses_an_action_or_runs_a_command() -> None:
    workflow = load_github()
    assert workflow[True] == "pull_request", "YAML reads the key `on` as a boolean"
    job = workflow["jobs"]["review"]
    assert job["runs-on"]
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)
    assert job["steps"][-1]["if"] == "always()"


def test_the_job_of_gitlab_has_scripts_of_texts() -> None:
    job = load_gitlab()["review"]
    for part in ("before_script", "script", "after_script"):
        assert job[part]
        assert all(isinstance(line, str) for line in job[part])


def test_both_run_the_same_commands() -> None:
    commands = list_github_commands()
    assert [command.split()[:2] for command in commands] == [
        ["arctic", "preview"],
        ["dbt", "clone"],
        ["dbt", "build"],
        ["arctic", "diff"],
        ["dbt", "run-operation"],
    ]
    assert commands == list_gitlab_commands()


def test_the_commands_of_arctic_are_accepted() -> None:
    for command in list_github_commands():
        words = shlex.split(command.partition(">")[0])
        if words[0] == "arctic":
            options = build_parser().parse_args(words[1:])
            operation = get_operation(options.command)
            assert operation.read_values({part.name: getattr(options, part.name) for part in operation.arguments})


def test_the_sample_has_the_macro_and_the_target() -> None:
    (macro,) = list_blocks("sql")
    sample = ROOT / "sample_project"
    assert (sample / "macros" / "drop_environment.sql").read_text(encoding="utf-8") == macro
    (schema,) = [line.strip() for line in list_blocks("yaml")[0].splitlines() if "REQUEST_NUMBER" in line]
    assert schema in (sample / "profiles.yml").read_text(encoding="utf-8")
