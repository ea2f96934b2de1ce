"""The workflows of docs/ci.md: whole, the same on both services, and with commands that exist."""

from __future__ import annotations

import shlex

import pytest

from arctic_runtime.operations.registry import get_operation
from dbt.adapters.arctic.cli import build_parser
from dbt.adapters.arctic.credentials import ArcticCredentials
from tests.workflows import (
    ROOT,
    list_blocks,
    list_github_commands,
    list_gitlab_commands,
    load_github,
    load_gitlab,
    load_profile,
)

COMMANDS = {
    "review": ["arctic preview", "dbt clone", "dbt build", "arctic diff"],
    "production": ["arctic promote", "dbt build", "dbt run-operation"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_step_of_github_uses_an_action_or_runs_a_command(name: str) -> None:
    workflow = load_github()[name]
    assert workflow[True], "YAML reads the key `on` as a boolean"
    job = workflow["jobs"][name]
    assert job["runs-on"]
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)


def test_production_runs_at_each_merge_and_never_twice_at_once() -> None:
    workflow = load_github()["production"]
    assert workflow[True]["push"] == {"branches": ["main"]}
    assert workflow["concurrency"] == load_gitlab()["production"]["resource_group"]


def test_the_workflow_of_a_request_reads_the_manifest_that_production_keeps() -> None:
    jobs = {name: workflow["jobs"][name] for name, workflow in load_github().items()}
    (kept,) = [step["with"] for step in jobs["production"]["steps"] if "upload-artifact" in step.get("uses", "")]
    (read,) = [step["run"] for step in jobs["review"]["steps"] if "gh run download" in step.get("run", "")]
    assert f"--name {kept['name']} " in read
    assert load_gitlab()["production"]["artifacts"]["paths"] == [kept["path"]]
    assert jobs["review"]["env"].keys() - jobs["production"]["env"].keys() == {"REQUEST_NUMBER"}


def test_the_targets_have_one_catalog_that_every_runner_reaches() -> None:
    (outputs,) = [part["outputs"] for part in load_profile().values()]
    assert {name: target["schema"] for name, target in outputs.items()} == {
        "prod": "shop",
        "branch": "pr_{{ env_var('REQUEST_NUMBER', '0') }}",
    }
    for target in outputs.values():
        settings = {key: value for key, value in target.items() if key != "type"}
        ArcticCredentials.validate({**settings, "database": "lake"})
        ArcticCredentials(**settings)
        assert target["catalog_config"]["warehouse"].startswith("s3://")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_jobs_of_gitlab_have_scripts_of_texts(name: str) -> None:
    for part in (load_gitlab()["default"]["before_script"], load_gitlab()[name]["script"]):
        assert part
        assert all(isinstance(line, str) for line in part)


@pytest.mark.parametrize("name", COMMANDS)
def test_both_run_the_same_commands(name: str) -> None:
    commands = list_github_commands(name)
    assert [" ".join(command.split()[:2]) for command in commands] == COMMANDS[name]
    assert commands == list_gitlab_commands(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_of_arctic_are_accepted(name: str) -> None:
    for command in list_github_commands(name):
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
