"""Clones in tables: origins and tags are read as they were written, and broken ones are said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.clone import (
    CloneOrigin,
    CloneTag,
    parse_clone_tag,
    read_clone,
    read_clone_origin,
    shares_files,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import CLONED_FROM, USED_AT
from arctic_runtime.model.version import Version

NUMBERS = st.integers(0, 2**62)
NAMES = st.builds(TableName, *[st.text("ab._%`é ", min_size=1).filter(lambda text: text.strip(".") != "")] * 3)
ORIGIN = CloneOrigin(TableName("l", "p", "m"), Version("u", 1, 2), TableName("l", "p", "m__changes"), 100, "me")


@given(
    st.builds(
        CloneOrigin,
        model=NAMES,
        version=st.builds(Version, table=st.text(), snapshot=NUMBERS, sequence=NUMBERS),
        table=NAMES,
        at_ms=NUMBERS,
        owner=st.text(),
        upstreams=st.lists(st.tuples(NAMES, NAMES), max_size=3).map(tuple),
    )
)
def test_an_origin_is_read_as_it_was_written(origin: CloneOrigin) -> None:
    assert read_clone_origin({CLONED_FROM: origin.encode()}) == origin


@pytest.mark.parametrize("text", ["", "7", "{}", '{"model": ["a", "b", "c"]}', ORIGIN.encode().replace('"p"', '""')])
def test_an_origin_that_cannot_be_read_is_an_error(text: str) -> None:
    assert read_clone_origin({}) is None
    with pytest.raises(CorruptState, match=CLONED_FROM):
        read_clone_origin({CLONED_FROM: text})


@given(st.builds(CloneTag, clone=NAMES, at_ms=NUMBERS, number=NUMBERS))
def test_a_tag_is_read_as_it_was_named(tag: CloneTag) -> None:
    assert parse_clone_tag(tag.name) == tag


@pytest.mark.parametrize(
    "name", ["keep", "arctic_clone_", "arctic_clone_1_2_a.b", "arctic_clone_x_0_a.b.c", "arctic_clone_1_2_.b.c"]
)
def test_other_tags_are_none_of_clones(name: str) -> None:
    assert parse_clone_tag(name) is None


def test_a_clone_was_used_when_it_was_made_or_run_last() -> None:
    table, properties = TableName("l", "d", "m"), {CLONED_FROM: ORIGIN.encode()}
    assert read_clone(table, {}, 500) is None
    used = [
        (read_clone(table, {**properties, **more}, commit))
        for more, commit in (({}, 50), ({}, 500), ({USED_AT: "700"}, 500))
    ]
    assert [clone and clone.used_ms for clone in used] == [100, 500, 700]
    assert used[0] is not None
    assert used[0].tag == CloneTag(table, 100)


def test_files_of_a_table_are_shared_if_iceberg_must_not_delete_them() -> None:
    assert shares_files({"gc.enabled": "false"})
    assert not shares_files({"gc.enabled": "true"})
    assert not shares_files({})
