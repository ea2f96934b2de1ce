"""The checks of `make lint` are those before a commit, and those of `.ci/run`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def list_checks() -> list[str]:
    (targets,) = re.findall(r"^lint: (.+)$", MAKEFILE, re.MULTILINE)
    return targets.split()


def test_a_commit_is_checked_by_each_check_of_lint_and_by_nothing_that_is_fetched() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repo["repo"] == "local"
    assert [hook["entry"] for hook in repo["hooks"]] == [f"make {check}" for check in list_checks()]
    assert {(hook["language"], hook["pass_filenames"]) for hook in repo["hooks"]} == {("system", False)}


def test_every_check_has_a_command_and_runs_each_time() -> None:
    checks = [name for name in re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE) if name.startswith("lint-")]
    phony = " ".join(re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE))
    assert checks == list_checks()
    assert set(checks) <= set(phony.split())
    assert [name for name in checks if not re.search(rf"^{name}: .*\n\t\$\(BIN\)/", MAKEFILE, re.MULTILINE)] == []


@pytest.mark.parametrize("is_broken", [False, True])
def test_the_run_of_everything_speaks_of_lint_only_if_it_fails(tmp_path: Path, is_broken: bool) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text(encoding="utf-8"), encoding="utf-8")
    end = "exit 1" if is_broken else "true"
    (tmp_path / "Makefile").write_text(f"test test-turn:\nlint: one two\none:\n\t@echo one; {end}\ntwo:\n\t@echo two\n")
    done = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == is_broken
    assert ("one" in done.stderr, "two" in done.stderr) == (is_broken, is_broken)
