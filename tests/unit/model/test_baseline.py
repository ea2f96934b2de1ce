"""The baseline of a change table: it is read as it was written, and a broken one is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.baseline import Baseline, read_baseline
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BASELINE

NUMBERS = st.integers(0, 2**62)


@given(
    st.builds(
        Baseline,
        table=st.builds(TableName, *[st.text("ab.é ", min_size=1).filter(lambda text: text.strip(".") != "")] * 3),
        snapshot=NUMBERS,
        sequence=NUMBERS,
        at_ms=NUMBERS,
        spec=NUMBERS,
        is_sorted=st.booleans(),
        properties=st.dictionaries(st.text(), st.none() | st.text()).map(lambda values: tuple(values.items())),
    )
)
def test_it_is_read_as_it_was_written(baseline: Baseline) -> None:
    assert read_baseline({BASELINE: baseline.encode()}) == baseline


@pytest.mark.parametrize("text", ["", "7", "{}", '{"table": ["a", "b", "c"]}', '{"table": ["a"], "snapshot": 1}'])
def test_one_that_cannot_be_read_is_an_error(text: str) -> None:
    assert read_baseline({}) is None
    with pytest.raises(CorruptState, match=BASELINE):
        read_baseline({BASELINE: text})
