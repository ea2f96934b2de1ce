"""Seeds of the simulation without a violation, and planted bugs, each of which some seed finds.

The simulation runs in a process of its own, in which the order of sets is always the same.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.bugs import BUGS

ROOT = Path(__file__).parents[2]


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def run_seeds(first: int, seeds: int, *others: str) -> dict[str, Any]:
    done = simulate("--first", str(first), "--seeds", str(seeds), "--json", *others)
    assert done.stdout, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def test_some_seeds_lose_nothing_and_claim_nothing_false() -> None:
    summary = run_seeds(0, 15)
    assert (summary["losses"], summary["false_claims_of_freshness"]) == (0, 0), summary["failing_seeds"]
    assert sum(summary["faults"].values()) > 60
    assert summary["counts"]["builds published"] > 3


@pytest.mark.in_turn
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_seeds_lose_nothing_and_claim_nothing_false(first: int) -> None:
    summary = run_seeds(first, 50)
    assert (summary["losses"], summary["false_claims_of_freshness"]) == (0, 0), summary["failing_seeds"]
    assert summary["seeds"] == 50
    assert sum(summary["faults"].values()) > 200
    assert summary["counts"]["builds published"] > 10
    assert summary["counts"]["forgettings"] > 2
    assert summary["counts"]["dead letters applied"] > 5
    assert summary["counts"]["dead letters superseded"] > 0
    assert summary["counts"]["runs EDITED"] > 0
    assert summary["counts"]["restatements"] > 5


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 12_000, 500))
def test_many_seeds_lose_nothing_and_claim_nothing_false(first: int) -> None:
    summary = run_seeds(first, 500)
    assert (summary["losses"], summary["false_claims_of_freshness"]) == (0, 0), summary["failing_seeds"]
    assert summary["simulated_days"] > 50


@pytest.mark.in_turn
@pytest.mark.parametrize("bug", BUGS)
def test_some_seed_finds_a_planted_bug(bug: str) -> None:
    summary = run_seeds(0, 100, "--bug", bug)
    assert summary["losses"] == 1


@pytest.mark.in_turn
def test_a_seed_is_the_same_each_time() -> None:
    first, second = (simulate("--seed", "5", "--history").stdout for _ in range(2))
    assert first == second
    assert len(first.splitlines()) > 100


@pytest.mark.in_turn
def test_a_failing_seed_prints_a_history_that_was_made_smaller() -> None:
    done = simulate("--seed", "0", "--bug", "offsets-before-rows")
    assert done.returncode == 1
    assert "VIOLATION" in done.stdout
    left = re.search(r"seed 0 fails with (\d+) faults, (\d+) transactions:", done.stdout)
    assert left is not None
    assert int(left[1]) <= 8
    assert int(left[2]) <= 8
