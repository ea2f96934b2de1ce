"""Versions of tables that all runs of an invocation read."""

from __future__ import annotations

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from tests.unit.plan.refresh.test_decide import OTHER, UP, a_source, v


def test_the_state_that_was_observed_first_is_read_by_all() -> None:
    pins = PinnedSnapshots()
    assert pins.get_first(UP, lambda: a_source(1)) == a_source(1)
    assert pins.get_first(UP, lambda: a_source(1, 2)) == a_source(1)
    assert pins.list_versions() == {str(UP): v(1)}


def test_a_table_that_was_brought_up_to_date_is_read_as_it_is_then() -> None:
    pins = PinnedSnapshots()
    pins.get_first(UP, lambda: a_source(1))
    pins.invalidate_table(UP)
    assert pins.get_first(UP, lambda: a_source(1, 2)) == a_source(1, 2)


def test_tables_whose_files_were_replaced_are_observed_again_at_the_same_versions() -> None:
    first = PinnedSnapshots()
    first.get_first(UP, lambda: a_source(1, 2))
    pins = first.observe_again(()).observe_again(())
    state = pins.get_first(UP, lambda: a_source(1, 2, 3))
    assert state is not None
    assert (state.version, len(state.commits)) == (v(2), 3)
    assert pins.get_first(OTHER, lambda: a_source(1, 2, name=OTHER)) == a_source(1, 2, name=OTHER)
    assert pins.time == first.time


def test_a_table_that_was_brought_up_to_date_since_is_no_longer_held_at_its_version() -> None:
    first = PinnedSnapshots()
    first.get_first(UP, lambda: a_source(1, 2))
    pins = first.observe_again(())
    pins.invalidate_table(UP)
    assert pins.get_first(UP, lambda: a_source(1, 2, 3)) == a_source(1, 2, 3)


def test_a_table_that_was_brought_up_to_date_is_not_held_when_all_are_observed_again() -> None:
    first = PinnedSnapshots()
    first.get_first(UP, lambda: a_source(1, 2))
    pins = first.observe_again(())
    pins.invalidate_table(UP)
    assert pins.observe_again(()).get_first(UP, lambda: a_source(1, 2, 3)) == a_source(1, 2, 3)


def test_a_table_that_was_created_again_has_no_version_to_be_held_at() -> None:
    first = PinnedSnapshots()
    first.get_first(UP, lambda: a_source(3))
    made = a_source(1, table="uuid-2")
    assert first.observe_again(()).get_first(UP, lambda: made) == made


def test_a_table_that_was_rewritten_is_read_as_it_is_then() -> None:
    first = PinnedSnapshots()
    for name in (UP, OTHER):
        first.get_first(name, lambda name=name: a_source(1, name=name))  # type: ignore[misc]
    pins = first.observe_again({UP})
    states = [pins.get_first(name, lambda name=name: a_source(1, 2, name=name)) for name in (UP, OTHER)]  # type: ignore[misc]
    assert [state.version for state in states if state is not None] == [v(2), v(1)]
