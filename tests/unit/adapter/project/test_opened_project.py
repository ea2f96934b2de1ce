"""What the library asks of a dbt project reaches the commands as their command lines would say it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import arctic_runtime as arctic
from dbt.adapters.arctic.cli import build_parser
from dbt.adapters.arctic.commands import ingest, serve
from dbt.adapters.arctic.project import opened_project
from dbt.adapters.arctic.project.project_tables import CompiledProject


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> opened_project.OpenedProject:
    parsed = CompiledProject(arctic.Profile.for_embedded(tmp_path), ())
    monkeypatch.setattr(opened_project, "load_sources", lambda *_: parsed)
    return opened_project.read_project(Path("shop"), None, "dev")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """The options of commands that were performed."""
    performed: list[argparse.Namespace] = []
    for command in (ingest, serve):
        monkeypatch.setattr(command, "perform_command", performed.append)
    return performed


def test_ingestion_is_the_command(opened: opened_project.OpenedProject, given: list[argparse.Namespace]) -> None:
    opened.run_ingestion(["orders", "payments"], once=True)
    opened.run_ingestion([], once=False)
    place = ["--project-dir", "shop", "--target", "dev"]
    lines = (["ingest", "orders", "payments", *place, "--once"], ["ingest", *place])
    assert given == [build_parser().parse_args(line) for line in lines]


def test_the_service_is_the_command(opened: opened_project.OpenedProject, given: list[argparse.Namespace]) -> None:
    opened.run_service("0.0.0.0", 0, ["ingest", "http"])
    line = "serve --project-dir shop --target dev --host 0.0.0.0 --port 0 --without ingest --without http"
    assert given == [build_parser().parse_args(line.split())]


def test_an_unknown_part_of_the_service_suggests_the_one_that_was_meant(
    opened: opened_project.OpenedProject,
) -> None:
    with pytest.raises(arctic.ConfigError, match="did you mean 'upkeep'"):
        opened.run_service(None, None, ["upkep"])
