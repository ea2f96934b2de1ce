"""Errors: their text, their parts, and what becomes of them on the way to another process."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterable
from pathlib import Path

import pytest

import arctic_runtime
from arctic_runtime import errors
from arctic_runtime.errors import ArcticError, CatalogError, CommitConflict, ConfigError, DataError
from arctic_runtime.plan.refresh.schema import TypeConflict

ROOT = Path(arctic_runtime.__file__).parent.parent
LABELS = ("  where: ", "  expected: ", "  found: ", "  what to do: ")
PARTS = {"where": "sales.orders", "expected": "one key", "actual": "two", "fix": "drop one"}


def test_a_plain_message_is_the_text() -> None:
    error = ConfigError("no such table")
    assert str(error) == "no such table"
    assert error.details == {}


def test_each_known_part_has_a_line_of_its_own_in_a_fixed_order() -> None:
    error = ConfigError("The key is ambiguous.", fix="drop one", actual="two", expected="one key", where="sales.orders")
    assert str(error) == (
        "The key is ambiguous.\n  where: sales.orders\n  expected: one key\n  found: two\n  what to do: drop one"
    )
    assert error.details == PARTS
    assert list(error.details) == list(PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_an_unknown_part_has_no_line(name: str) -> None:
    error = DataError("The key is ambiguous.", **{name: PARTS[name]})
    assert len(str(error).splitlines()) == 2
    assert str(error).endswith(f": {PARTS[name]}")
    assert error.details == {name: PARTS[name]}


def test_parts_follow_further_lines_of_the_message_without_an_empty_line() -> None:
    error = DataError("A key is null.\n  example: {'id': None}\n", fix="filter it out")
    assert str(error) == "A key is null.\n  example: {'id': None}\n  what to do: filter it out"


@pytest.mark.parametrize("error_class", [ArcticError, CommitConflict, TypeConflict])
def test_pickling_and_copying_keep_class_text_and_parts(error_class: type[ArcticError]) -> None:
    error = error_class("The key is ambiguous.", **PARTS)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is error_class
        assert str(twin) == str(error)
        assert (twin.message, twin.details) == ("The key is ambiguous.", PARTS)


def test_a_lost_race_says_to_run_again_unless_it_is_given_other_advice() -> None:
    assert CommitConflict("Another writer was faster.").details["fix"].startswith("run again")
    assert CommitConflict("Another writer was faster.", fix="wait").details == {"fix": "wait"}


def test_an_error_with_a_cause_keeps_its_parts() -> None:
    cause = OSError("disk full")
    with pytest.raises(CatalogError) as caught:
        raise CatalogError("The warehouse can't be written.", actual=str(cause)) from cause
    assert caught.value.__cause__ is cause
    assert caught.value.details == {"actual": "disk full"}


def test_text_is_no_field() -> None:
    with pytest.raises(TypeError):
        ConfigError("The key is ambiguous.", "sales.orders")  # type: ignore[misc]


def _list_error_classes(trees: Iterable[ast.Module]) -> set[str]:
    """The names of our errors, those of single modules too."""
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    own = {one.name for one in classes if any(ast.unparse(base) in errors.__all__ for base in one.bases)}
    return own | set(errors.__all__)


def _list_labelled_lines(tree: ast.Module, names: set[str]) -> list[int]:
    """The lines at which an error of ours is made whose text has the label of a part."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in names]
    texts = {call.lineno: [part.value for part in ast.walk(call) if isinstance(part, ast.Constant)] for call in calls}
    return [line for line, values in texts.items() if any(label in str(value) for value in values for label in LABELS)]


def test_no_message_has_a_part_by_hand() -> None:
    files = [file for folder in ("arctic_runtime", "dbt") for file in (ROOT / folder).rglob("*.py")]
    trees = {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in files}
    names = _list_error_classes(trees.values())
    assert {"ConfigError", "TypeConflict"} <= names
    assert {file: lines for file, tree in trees.items() if (lines := _list_labelled_lines(tree, names))} == {}


def test_a_part_by_hand_is_noticed() -> None:
    tree = ast.parse(
        'raise ConfigError(\n    f"{x} is missing.\\n  found: {y}"\n)\nraise ConfigError("plain", fix="found: it")'
    )
    assert _list_labelled_lines(tree, {"ConfigError"}) == [1]


def test_half_of_a_surrogate_pair_is_shown_as_an_escape() -> None:
    """No terminal, file or database takes it as it is, so that its error would hide this one."""
    error = ConfigError("no \ud800", where="a\udfff", actual="\ud83d\ude00"[:1])
    assert str(error) == "no \\ud800\n  where: a\\udfff\n  found: \\ud83d"
    assert error.message == "no \\ud800"
    assert error.details == {"where": "a\\udfff", "actual": "\\ud83d"}
