"""What is said of a call of a date function that can't be meant; values are in `test_macro_values`."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.arctic.relations.date_functions import DATE_FUNCTIONS
from dbt.adapters.arctic.relations.identifiers import parse_literal


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("dateadd", ("fortnight", "1", "d")), ("datediff", ("a", "b", "days")), ("date_trunc", ("decade", "d"))],
)
def test_an_unknown_unit_is_an_error_and_never_null(function: str, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CompilationError, match=rf"{function}: '\w+' is not a unit of time.\s+expected: microsecond, "):
        DATE_FUNCTIONS[function](*arguments)


@pytest.mark.parametrize("text", ["array(1)", "'", "", "'a", "a'", "null"])
def test_what_is_no_literal_stays_as_it_is(text: str) -> None:
    assert parse_literal(text) == text
