"""Upstreams of a model that show one version of each table, or two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import MODE, OFFSETS, RUN
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.version import Version, encode_versions
from arctic_runtime.plan.refresh.consistency import find_mixed_versions, find_newer_version
from tests.unit.plan.refresh.test_decide import OTHER, UP, a_commit, a_source, v

MIDDLE, BELOW, BESIDE = (TableName("lake", "dwd", name) for name in ("middle", "below", "beside"))


def at(number: int, table: TableName) -> Version:
    """A version of a model's change table, or of the table `UP`."""
    return v(number) if table == UP else v(number, table.name)


def a_run(
    name: TableName, number: int, reads: Mapping[TableName, int], rows: int = 1, mode: str = "incremental"
) -> Commit:
    offsets = {str(upstream): at(read, upstream) for upstream, read in reads.items()}
    run = {RUN: f"token{number}", MODE: mode, OFFSETS: encode_versions(offsets)}
    return replace(a_commit(at(number, name), **run), rows=rows)


def a_model_state(name: TableName, *commits: Commit) -> SourceState:
    """The state of a model at the newest of these commits with rows."""
    newest = next(commit.version for commit in reversed(commits) if commit.rows)
    return replace(a_source(1, name=name), kind="changes", version=newest, commits=commits)


def unknown(name: str, version: Version) -> None:
    """No further table is known."""


def pins(**versions: Version) -> dict[str, Version]:
    return {f"lake.{'ods' if name == 'up' else 'dwd'}.{name}": version for name, version in versions.items()}


@pytest.mark.parametrize(("read", "newer"), [(1, False), (2, False), (3, True)])
def test_an_upstream_is_newer_if_it_has_read_a_later_version_than_the_pinned_one(read: int, newer: bool) -> None:
    upstream = a_model_state(MIDDLE, a_run(MIDDLE, 1, {UP: read}))
    expected = (str(MIDDLE), str(UP)) if newer else None
    assert find_newer_version([a_source(1, 2), upstream], unknown, pins(up=v(2))) == expected


def test_a_table_that_was_created_again_is_neither_newer_nor_older() -> None:
    upstream = a_model_state(MIDDLE, a_run(MIDDLE, 1, {UP: 3}))
    assert find_newer_version([upstream], unknown, pins(up=v(2, "uuid-2"))) is None


def test_a_run_that_changed_no_row_makes_an_upstream_no_newer() -> None:
    upstream = a_model_state(MIDDLE, a_run(MIDDLE, 1, {UP: 1}), a_run(MIDDLE, 2, {UP: 3}, rows=0))
    assert find_newer_version([upstream], unknown, pins(up=v(2))) is None


def test_a_run_that_computed_all_rows_reads_newer_versions_than_its_invocation() -> None:
    upstream = a_model_state(MIDDLE, a_run(MIDDLE, 1, {UP: 3}, mode="full"))
    assert find_newer_version([upstream], unknown, pins(up=v(2))) is None


def test_a_newer_version_is_seen_through_several_models() -> None:
    middle = a_model_state(MIDDLE, a_run(MIDDLE, 1, {UP: 1}), a_run(MIDDLE, 2, {UP: 3}))
    states = {str(MIDDLE): middle}
    for read, expected in ((1, None), (2, (str(BELOW), str(UP)))):
        upstream = a_model_state(BELOW, a_run(BELOW, 1, {MIDDLE: read}))
        assert find_newer_version([upstream], lambda name, _: states.get(name), pins(up=v(2))) == expected


def test_a_newer_model_between_is_seen_by_its_own_pin() -> None:
    upstream = a_model_state(BELOW, a_run(BELOW, 1, {MIDDLE: 2}))
    assert find_newer_version([upstream], unknown, pins(middle=at(1, MIDDLE))) == (str(BELOW), str(MIDDLE))


@pytest.mark.parametrize(("read", "mixed"), [(1, True), (2, False)])
def test_a_table_is_mixed_if_it_is_read_at_a_version_and_shown_at_another(read: int, mixed: bool) -> None:
    upstream = a_model_state(MIDDLE, a_run(MIDDLE, 1, {UP: read}))
    assert find_mixed_versions([a_source(1, 2), upstream], unknown) == (str(UP) if mixed else None)


@pytest.mark.parametrize(("reads", "mixed"), [((1, 1), False), ((1, 2), True), ((2, 1), True)])
def test_a_table_is_mixed_if_two_upstreams_show_two_versions(reads: tuple[int, int], mixed: bool) -> None:
    upstreams = [
        a_model_state(name, a_run(name, 1, {UP: read})) for name, read in zip((MIDDLE, BESIDE), reads, strict=True)
    ]
    assert find_mixed_versions([*upstreams, a_source(1, name=OTHER)], unknown) == (str(UP) if mixed else None)


def test_versions_between_which_no_row_of_an_upstream_changed_are_not_mixed() -> None:
    upstream = a_model_state(MIDDLE, a_run(MIDDLE, 1, {UP: 1}), a_run(MIDDLE, 2, {UP: 3}, rows=0))
    for version, mixed in ((1, False), (2, False), (3, False), (4, True)):
        read = a_source(*range(1, version + 1))
        assert find_mixed_versions([read, upstream], unknown) == (str(UP) if mixed else None)


def test_a_table_that_was_created_again_since_an_upstream_read_it_is_mixed() -> None:
    upstream = a_model_state(MIDDLE, a_run(MIDDLE, 1, {UP: 1}))
    assert find_mixed_versions([a_source(1, table="uuid-2"), upstream], unknown) == str(UP)
