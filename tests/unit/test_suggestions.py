"""Suggestions for unknown names."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import find_nearest, suggest_nearest

KNOWN = ("compact", "savepoint", "verify")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("compakt", "compact"), ("verifyy", "verify"), ("compact", "compact"), ("drop", None), ("", None)],
)
def test_the_closest_name_is_taken_and_none_that_is_far(name: str, nearest: str | None) -> None:
    assert find_nearest(name, KNOWN) == nearest


def test_names_may_come_one_by_one_and_there_may_be_none() -> None:
    assert find_nearest("compakt", iter(KNOWN)) == "compact"
    assert find_nearest("compact", ()) is None


@pytest.mark.parametrize(("name", "text"), [("verifyy", " (did you mean 'verify'?)"), ("drop", "")])
def test_a_suggestion_follows_the_name_in_a_message(name: str, text: str) -> None:
    assert f"unknown{suggest_nearest(name, KNOWN)}" == f"unknown{text}"
