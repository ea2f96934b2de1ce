"""Refusals say what was wrong, and where a fault of this package is."""

import pytest

from arctic_runtime.ivm.algebra.refusal import MOST_TEXT, NotMaintained, refuse_on_error


def _refuse(error: Exception) -> str:
    with pytest.raises(NotMaintained) as refused, refuse_on_error():
        raise error
    return refused.value.because


def test_a_fault_without_a_text_is_found_by_its_place() -> None:
    assert _refuse(AssertionError()).startswith("AssertionError (ivm/algebra/test_refusal.py:")


def test_the_place_is_kept_if_the_text_is_long() -> None:
    because = _refuse(KeyError("x" * MOST_TEXT))
    assert len(because) == MOST_TEXT
    assert "x (ivm/algebra/test_refusal.py:" in because


def test_an_error_of_a_library_speaks_for_itself() -> None:
    class ParseError(ValueError):
        pass

    assert _refuse(ParseError("a cast failed")) == "ParseError: a cast failed"
