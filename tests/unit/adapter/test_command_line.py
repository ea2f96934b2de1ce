"""The entry of the command `arctic`, which loads little until it knows what is asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from arctic_runtime.operations.registry import OPERATIONS
from dbt.adapters import arctic
from dbt.adapters.arctic import cli, command_line

PRINT_LOADED = """
import sys
from dbt.adapters.arctic.command_line import main
try:
    main(sys.argv[1:])
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], [], ["shows"]])
def test_help_and_a_mistyped_command_load_neither_dbt_nor_the_runtime(arguments: list[str]) -> None:
    command = [sys.executable, "-c", PRINT_LOADED, *arguments]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()[-1].split()
    ours = {name.removeprefix("dbt.adapters") for name in loaded if name.startswith(("arctic_runtime", "dbt."))}
    assert ours == {"", ".arctic", ".arctic.__version__", ".arctic.command_line"}
    assert not {"shtab", "yaml", "json"} & set(loaded)


def test_a_mistyped_command_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(["statsu"])
    assert ended.value.code == cli.WRONG_USE
    assert "there is no command statsu (did you mean status?)" in capsys.readouterr().err


def test_the_help_is_that_of_the_parser_of_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == cli.build_parser().format_help()


def test_every_command_has_one_description() -> None:
    described = {operation.name: operation.description for operation in OPERATIONS}
    assert list(described.items()) == [known for known in command_line.COMMANDS.items() if known[0] not in cli.OTHERS]
    assert {*described, *cli.OTHERS} == {*command_line.COMMANDS}


def test_a_command_that_is_interrupted_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupt)
    assert command_line.main(["why", "orders", "--key", "1"]) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("arctic why: interrupted; run it again")


@pytest.mark.parametrize("name", arctic.__all__)
def test_what_dbt_reads_of_the_adapter_is_there(name: str) -> None:
    assert getattr(arctic, name).__name__ == name if name != "Plugin" else arctic.Plugin.adapter.type() == "arctic"


def test_another_name_of_the_adapter_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Plugins'"):
        arctic.Plugins  # noqa: B018


def test_a_reader_that_ends_early_gets_no_trace() -> None:
    command = [sys.executable, "-m", "dbt.adapters.arctic.command_line", "schema", "models"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"{"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
