"""Packages that are installed: their versions fit together, whichever way they are installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
LEFT_OUT = "dbt-core-experimental-parser"
REPLACED = "dbt-core"


def read_pins(file: str) -> list[Requirement]:
    lines = (ROOT / file).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def is_missing(requirement: Requirement) -> bool:
    try:
        return not requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return True


def test_packages_of_both_files_have_one_version() -> None:
    constraints = {(canonicalize_name(pin.name), str(pin.specifier)) for pin in read_pins("constraints.txt")}
    names = {name for name, _ in constraints}
    pins = {(canonicalize_name(pin.name), str(pin.specifier)) for pin in read_pins("requirements-dbt.txt")}
    assert {name for name, specifier in pins if name in names and (name, specifier) not in constraints} == {REPLACED}


@pytest.mark.parametrize("name", [pin.name for pin in read_pins("requirements-dbt.txt")])
def test_packages_installed_without_dependencies_have_theirs(name: str) -> None:
    """What `--no-deps` does not install has to be in one of the files."""
    try:
        wanted = [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError:
        pytest.skip("dbt-core is the one of constraints.txt")
    wanted = [requirement for requirement in wanted if not requirement.marker or requirement.marker.evaluate()]
    assert {requirement.name for requirement in wanted if is_missing(requirement)} <= {LEFT_OUT}


@pytest.mark.parametrize("file", ["Makefile", "deploy/docker/Dockerfile", "noxfile.py"])
def test_installs_with_constraints_replace_dbt_core(file: str) -> None:
    text = (ROOT / file).read_text().replace('", "', " ")
    install, replacement = text.index("-c constraints.txt"), text.index("--no-deps -r requirements-dbt.txt")
    assert install < replacement
