"""Lives that key changes join are one chain, which begins with the first of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.ingest.writing.fold import find_roots


@given(st.lists(st.integers(0, 30), max_size=40).map(lambda ends: {of + 31: end for of, end in enumerate(ends)}))
def test_a_key_change_leads_to_the_begin_of_its_chain(parents: dict[int, int]) -> None:
    assert find_roots(parents) == parents


@given(st.sets(st.integers(0, 1000), min_size=2))
def test_a_chain_of_any_length_has_one_begin(lives: set[int]) -> None:
    first, *rest = sorted(lives)
    parents = dict(zip(rest, sorted(lives), strict=False))
    assert find_roots(parents) == dict.fromkeys(rest, first)
