"""Examples of commands: each command has some, its help shows them, and its own parser takes them."""

from __future__ import annotations

import shlex

import pytest

from dbt.adapters.arctic.cli import build_parser, list_command_names
from dbt.adapters.arctic.command_examples import EXAMPLES


def test_every_command_has_one_or_more_examples_and_no_other_has() -> None:
    assert {*EXAMPLES} == {*list_command_names()}
    assert all(EXAMPLES.values())


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in EXAMPLES.items() for line in lines])
def test_an_example_is_taken_by_the_parser_of_its_command(name: str, line: str) -> None:
    program, *arguments = shlex.split(line)
    assert (program, arguments[0]) == ("arctic", name)
    assert build_parser([name]).parse_args(arguments).command == name


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_help_of_a_command_ends_with_its_examples_one_a_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser([name]).parse_args([name, "--help"])
    lines = capsys.readouterr().out.splitlines()
    shown = lines[lines.index("examples:") + 1 :]
    assert tuple(line.strip() for line in shown) == EXAMPLES[name]
    assert max(map(len, shown)) <= 80
