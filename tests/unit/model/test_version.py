"""Versions and offsets: what a snapshot summary keeps is read back exactly, or not at all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.version import Version, Window, decode_versions, encode_versions

_longs = st.integers(-(2**63), 2**63 - 1)
_versions = st.builds(Version, st.text(max_size=40), _longs, _longs)
_offsets = st.dictionaries(st.text(max_size=30), _versions, max_size=4)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "table", "snapshot", "sequence"]), inner, max_size=4)
    ),
    max_leaves=6,
)


@settings(max_examples=40)
@given(_offsets)
def test_offsets_survive_a_snapshot_summary(offsets: dict[str, Version]) -> None:
    text = encode_versions(offsets)
    assert "\n" not in text
    assert decode_versions(text) == offsets


@settings(max_examples=30)
@given(_offsets, st.randoms(use_true_random=False))
def test_offsets_are_written_the_same_for_any_order_of_upstreams(offsets, chance) -> None:
    items = list(offsets.items())
    chance.shuffle(items)
    assert encode_versions(dict(items)) == encode_versions(offsets)


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_nothing_recorded_is_no_offset(text: str | None) -> None:
    assert decode_versions(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "null",
        "[]",
        "1",
        '"a"',
        '{"a": null}',
        '{"a": 1}',
        '{"a": []}',
        '{"a": {}}',
        '{"a": {"table": "t", "snapshot": 1}}',
        '{"a": {"table": "t", "snapshot": 1, "sequence": 1, "more": 1}}',
        '{"a": {"table": "t", "snapshot": "1", "sequence": 1}}',
        '{"a": {"table": "t", "snapshot": 1.0, "sequence": 1}}',
        '{"a": {"table": "t", "snapshot": 1, "sequence": null}}',
        '{"a": {"table": "t", "snapshot": true, "sequence": 1}}',
        '{"a": {"table": 7, "snapshot": 1, "sequence": 1}}',
        '{"a": ' + '{"a": ' * 100_000,
    ],
)
def test_offsets_that_cannot_be_read_stop_a_run_with_what_to_do(text: str) -> None:
    with pytest.raises(CorruptState, match="what to do"):
        decode_versions(text)


@settings(max_examples=40)
@given(st.text() | _json.map(json.dumps))
def test_a_text_is_either_offsets_that_can_be_written_again_or_corrupt(text: str) -> None:
    try:
        versions = decode_versions(text)
    except CorruptState:
        return
    assert decode_versions(encode_versions(versions)) == versions
    assert all(type(v.table) is str and type(v.snapshot) is type(v.sequence) is int for v in versions.values())


def test_a_window_is_empty_only_between_equal_versions_of_one_table() -> None:
    version = Version("t", 7, 3)
    assert Window("u", version, version).is_empty
    assert not Window("u", None, version).is_empty
    assert not Window("u", Version("t", 6, 2), version).is_empty
    assert not Window("u", Version("dropped", 7, 3), version).is_empty
