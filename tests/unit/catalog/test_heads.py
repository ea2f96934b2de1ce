"""One look at where tables stand serves several parts of a process."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from arctic_runtime.catalog import heads as looking
from arctic_runtime.catalog.heads import ObservedHeads, SharedHeads
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName

A, B, C = (TableName("lake", "dwd", name) for name in "abc")


@dataclass
class Looks:
    """Looks whose number is every table's head, at a time that the test sets."""

    shared: SharedHeads = field(init=False)
    asked: list[frozenset[TableName]] = field(default_factory=list)
    now: float = 0.0

    def observe(self, _: CatalogReader, relations: Collection[TableName]) -> ObservedHeads:
        self.asked.append(frozenset(relations))
        return ObservedHeads(dict.fromkeys(relations, str(len(self.asked))), frozenset())

    def number(self, heads: ObservedHeads) -> int:
        (number,) = set(heads.heads.values())
        return int(number)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    made = Looks()
    monkeypatch.setattr(looking, "observe_heads", made.observe)
    reader: CatalogReader = object()  # type: ignore[assignment]
    made.shared = SharedHeads(reader, lambda: made.now)
    return made


def test_a_look_is_given_to_each_part_once(looks: Looks) -> None:
    first = looks.shared.get_recent("page", [A], 1)
    assert looks.number(looks.shared.get_recent("graph", [A], 1)) == looks.number(first) == 1
    assert looks.number(looks.shared.get_recent("page", [A], 1)) == 2
    assert looks.number(looks.shared.get_recent("graph", [A], 1)) == 2


def test_a_new_look_sees_what_the_other_parts_ask_for(looks: Looks) -> None:
    looks.shared.get_recent("page", [A, B], 1)
    assert looks.number(looks.shared.observe_now([C])) == 2
    assert looks.asked[-1] == {A, B, C}
    assert looks.number(looks.shared.get_recent("page", [A, B], 1)) == 2


def test_what_a_part_no_longer_asks_for_is_no_longer_looked_at(looks: Looks) -> None:
    looks.shared.get_recent("page", [A, B], 1)
    looks.shared.get_recent("page", [B], 1)
    looks.shared.observe_now([C])
    assert looks.asked[-1] == {B, C}


def test_a_look_that_is_too_old_or_lacks_a_table_is_not_given(looks: Looks) -> None:
    looks.shared.observe_now([A])
    looks.now = 1.5
    assert looks.number(looks.shared.get_recent("page", [A], 1)) == 2
    assert looks.number(looks.shared.get_recent("graph", [A, B], 1)) == 3


def test_each_look_returns_the_current_state(looks: Looks) -> None:
    assert [looks.number(looks.shared.observe_now([A])) for _ in range(3)] == [1, 2, 3]
