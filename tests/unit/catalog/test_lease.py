"""A lease: one of several processes has it, whatever their clocks say."""

from __future__ import annotations

import time

import pytest

from arctic_runtime.catalog.lease import Held, Lease, LeaseTimes
from arctic_runtime.errors import CommitConflict

TIMES = LeaseTimes(lease_seconds=60, renewal_seconds=20, attempts=2)


class Memory:
    """A table with nothing but leases; `before_commit` is what others do just before a commit."""

    def __init__(self) -> None:
        self.leases: list[Held] = []
        self.before_commit: list[Held] = []

    def observe_lease(self) -> Held | None:
        return self.leases[-1] if self.leases else None

    def commit_lease(self, former: Held | None, lease: Held) -> None:
        self.leases += [self.before_commit.pop()] if self.before_commit else []
        if former != self.observe_lease():
            raise CommitConflict("another lease was committed")
        self.leases.append(lease)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_of_two_processes_has_the_lease() -> None:
    table = Memory()
    first, second = (Lease(table, TIMES, f"elsewhere:{number}:x") for number in (1, 2))

    assert first.take_lease() is None
    other = second.take_lease()
    assert other is not None
    assert other.process == "process 1 on elsewhere"
    first.end_lease()
    assert second.take_lease() is None


def test_of_two_processes_that_see_a_free_lease_one_gets_it() -> None:
    table = Memory()
    table.before_commit = [Held("elsewhere:1:x", time.time() + 60)]

    other = Lease(table, TIMES, "elsewhere:2:x").take_lease()

    assert other is not None
    assert other.holder == "elsewhere:1:x"


@pytest.mark.parametrize("ahead_seconds", [0, 3600])
def test_a_lease_that_is_not_renewed_is_taken_over_regardless_of_its_holders_clock(ahead_seconds: int) -> None:
    table, clock = Memory(), Clock()
    table.leases = [Held("elsewhere:1:x", time.time() + 60 + ahead_seconds)]
    lease = Lease(table, TIMES, "elsewhere:2:x", clock)

    assert lease.take_lease() is not None
    clock.now = 59
    assert lease.take_lease() is not None
    clock.now = 61
    assert lease.take_lease() is None


def test_a_lease_that_is_renewed_is_left_alone() -> None:
    table, clock = Memory(), Clock()
    holder = Lease(table, TIMES, "elsewhere:1:x")
    other = Lease(table, TIMES, "elsewhere:2:x", clock)
    for _ in range(10):
        assert holder.take_lease() is None
        assert other.take_lease() is not None
        clock.now += 20


def test_a_sign_of_life_is_given_only_when_it_is_time() -> None:
    table, clock = Memory(), Clock()
    lease = Lease(table, TIMES, "elsewhere:1:x", clock)
    lease.take_lease()
    lease.renew_lease()
    assert len(table.leases) == 1
    clock.now = 20
    lease.renew_lease()
    assert len(table.leases) == 2


def test_a_clock_that_is_set_back_moves_the_lease_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder's signs of life look old to others from then on, and theirs look young to it."""
    table, real = Memory(), time.time
    holder = Lease(table, TIMES, "elsewhere:1:x")
    other = Lease(table, TIMES, "elsewhere:2:x")

    def takes(lease: Lease, behind_seconds: float) -> bool:
        monkeypatch.setattr(time, "time", lambda: real() - behind_seconds)
        return lease.take_lease() is None

    assert takes(holder, 0)
    assert not takes(other, 0)
    assert takes(holder, 3600)
    assert takes(other, 0)
    for _ in range(3):
        assert not takes(holder, 3600)
        assert takes(other, 0)
