"""Examples of the documentation: commands are ones that can be typed, and models are SQL."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
import pytest
import sqlglot
from dbt.cli.main import cli as dbt

from arctic_runtime.service.http.application import build_application
from arctic_runtime.service.http_settings import HttpSettings
from dbt.adapters.arctic.cli import build_parser
from dbt.adapters.arctic.materialize import history
from tests.service.fake import FakeService
from tests.unit.project.test_docs import ROOT, Block, blocks, read

Arguments = list[str]

PATHS = build_application(FakeService(), HttpSettings()).openapi()["paths"]
"""Routes of HTTP and their methods."""


def _dbt(arguments: Arguments) -> None:
    """dbt's own parser takes it, and operations are macros that somebody has."""
    with dbt.make_context("dbt", list(arguments), resilient_parsing=True) as context:
        command = dbt.get_command(context, arguments[0])
        assert command is not None
        command.make_context(arguments[0], arguments[1:], parent=context)
    if arguments[0] == "run-operation":
        assert arguments[1] in MACROS


def _python(arguments: Arguments) -> None:
    option, module, *_ = arguments
    assert option == "-m"
    assert importlib.util.find_spec(module) is not None


def _pip(arguments: Arguments) -> None:
    *options, package = arguments
    is_checkout = package.startswith(".")
    assert options == (["install", "-c", "constraints.txt"] if is_checkout else ["install"])
    assert (ROOT / "constraints.txt").exists()
    extras = re.fullmatch(r"(?:\.|dbt-arctic)(?:\[([\w,]+)\])?", package)
    assert extras is not None
    assert all(f"\n{extra} = [" in read("pyproject.toml") for extra in (extras[1] or "").split(",") if extra)


def _make(arguments: Arguments) -> None:
    targets = re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE)
    assert [word for word in arguments if "=" not in word and word not in targets] == []


def _arctic(arguments: Arguments) -> None:
    build_parser().parse_args(arguments)


def _curl(arguments: Arguments) -> None:
    """The route is there, and its method; where there is a body, it is JSON."""
    (url,) = [word for word in arguments if word.startswith("http://localhost:8470/")]
    method = arguments[arguments.index("-X") + 1] if "-X" in arguments else "GET"
    path = urlsplit(url).path
    paths = [template for template in PATHS if re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path)]
    assert paths
    assert method.lower() in PATHS[paths[0]]
    assert (method == "POST") == ("-d" in arguments)
    if "-d" in arguments:
        assert isinstance(json.loads(arguments[arguments.index("-d") + 1]), dict)


def _psql(arguments: Arguments) -> None:
    """Statements that are arguments are ones of PostgreSQL."""
    assert {word for word in arguments if word.startswith("-")} <= {"-q", "-c", "-v"}
    for option, statement in itertools.pairwise(arguments):
        if option == "-c":
            assert sqlglot.parse_one(statement, read="postgres")


def _export(arguments: Arguments) -> None:
    assert all(re.fullmatch(r"[A-Z_]+=.+", word) for word in arguments)


def _keep(_arguments: Arguments) -> None:
    """A tool of the system; the tests that run a page run it."""


COMMANDS: Mapping[str, Callable[[Arguments], None]] = {
    "arctic": _arctic,
    "curl": _curl,
    "dbt": _dbt,
    "export": _export,
    "make": _make,
    "pip": _pip,
    "psql": _psql,
    "python": _python,
    **dict.fromkeys(("cd", "cp", "df", "du", "git", "mkdir", "rm"), _keep),
}
"""First word → what has to hold of the others."""

MACROS = {
    name
    for text in [
        *(file.read_text() for file in (ROOT / "dbt" / "include").rglob("*.sql")),
        *(block.text for block in blocks("sql")),
    ]
    for name in re.findall(r"{%-?\s*macro (\w+)", text)
}


def unbroken(text: str) -> list[str]:
    """The lines of a block, each command in one, without the input that is written below it."""
    without_input = re.sub(r" <<'(\w+)'\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    return without_input.replace("\\\n", " ").splitlines()


def single_commands(line: str) -> list[str]:
    """The commands of a line such as `! arctic verify` or `(cd other && dbt run)`."""
    line = line.strip().removeprefix("! ")
    return line[1:-1].split(" && ") if line.startswith("(") else [line]


def lines() -> list[str]:
    """What shell blocks say to type, without what the shell leaves out."""
    commands = [command for block in blocks("sh") for line in unbroken(block.text) for command in single_commands(line)]
    typed = [shlex.join(shlex.split(command, comments=True)) for command in commands]
    return sorted({line for line in typed if line})


@pytest.mark.parametrize("line", lines())
def test_a_command_of_the_documentation_can_be_typed(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path))  # dbt asks that the folder is there
    command, *arguments = shlex.split(line)
    COMMANDS[command](arguments)


def rendered(block: Block) -> str:
    """A model as Spark gets it; nothing is left of a macro."""

    def named(*parts: str) -> str:
        return "_".join(parts)

    names: dict[str, Any] = {"config": lambda **_: "", "run_query": named}
    names |= dict.fromkeys(("ref", "source", "changes", "quarantine"), named)
    names |= {
        "arctic": {"changes": named},
        "arctic_as_of": history.write_as_of,
        "arctic_valid_at": history.write_valid_at,
        "arctic_current": history.write_current,
    }
    environment = jinja2.Environment(extensions=["jinja2.ext.do"])
    return environment.from_string(block.text).render(**names).strip()


@pytest.mark.parametrize("block", blocks("sql"), ids=lambda block: block.page)
def test_an_example_in_sql_is_a_query_that_spark_reads(block: Block) -> None:
    text = rendered(block)
    if not text:
        assert "{% macro" in block.text
        return
    parsed = sqlglot.parse_one(text, read="spark")
    assert isinstance(parsed, sqlglot.exp.Query)
    assert parsed.named_selects


def test_no_kind_of_example_is_left_unlooked_at() -> None:
    """`python` is run by the tests of readers, and the statements of databases by those of rights.

    Pictures, output and settings of other engines have no language.
    """
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "sample_project" / "README.md"]
    languages = {kind for page in pages for kind in re.findall(r"^```(\w+)$", page.read_text(), re.MULTILINE)}
    assert languages <= {"sh", "sql", "yaml", "yml", "json", "python", "properties", "text", "postgresql", "mysql"}
