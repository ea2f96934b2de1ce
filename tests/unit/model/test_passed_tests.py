"""Tests that passed: what a change table keeps is read back exactly, or the tests look at all rows."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.passed_tests import (
    PassedTest,
    decode_passed_tests,
    encode_passed_tests,
    hash_test_name,
    merge_passed_tests,
)
from arctic_runtime.model.version import Version

_versions = st.builds(Version, st.text(max_size=9), st.integers(), st.integers(0, 9))
_tests = st.builds(
    PassedTest, st.text(max_size=9), st.dictionaries(st.sampled_from(["table", "parent"]), _versions, min_size=1)
)
_known = st.dictionaries(st.text(max_size=9), _tests, max_size=5)


@given(_known)
def test_tests_survive_a_property(tests: dict[str, PassedTest]) -> None:
    assert decode_passed_tests(encode_passed_tests(tests, 10)) == tests


@given(_known, st.integers(0, 3))
def test_the_newest_stay(tests: dict[str, PassedTest], most: int) -> None:
    kept = decode_passed_tests(encode_passed_tests(tests, most))
    assert len(kept) == min(most, len(tests))
    dropped = [newest(test) for name, test in tests.items() if name not in kept]
    assert all(newest(test) >= age for test in kept.values() for age in dropped)


def newest(test: PassedTest) -> int:
    return max(version.sequence for version in test.versions.values())


@settings(max_examples=200)
@given(
    st.none()
    | st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["definition", "table", "a"]), inner),
    ).map(json.dumps)
)
def test_any_text_can_be_read(text: str | None) -> None:
    tests = decode_passed_tests(text)
    assert decode_passed_tests(encode_passed_tests(tests, len(tests))) == tests


@given(_known, _known, st.sets(st.text(max_size=9)))
def test_tests_that_are_gone_are_forgotten(
    stored: dict[str, PassedTest], passed: dict[str, PassedTest], declared: set[str]
) -> None:
    declared |= set(list(stored)[:2])
    merged = merge_passed_tests(stored, passed, declared)
    assert merged.keys() == (stored.keys() | passed.keys()) & declared
    assert all(test == passed.get(name, stored.get(name)) for name, test in merged.items())


def test_names_are_short() -> None:
    names = {hash_test_name(f"test.shop.not_null_orders_{i}") for i in range(1000)}
    assert len(names) == 1000
    assert {len(name) for name in names} == {16}
