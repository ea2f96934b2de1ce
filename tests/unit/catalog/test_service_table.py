"""The table of a service: its leader, what is paused, and when models were run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from arctic_runtime.catalog.lease import Held, Lease, LeaseTimes
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import Paused, ServiceTable
from arctic_runtime.errors import CommitConflict
from arctic_runtime.profile import Profile
from tests.thresholds import changed

TIMES = LeaseTimes(lease_seconds=60, renewal_seconds=20, attempts=5)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return Profile.for_embedded(tmp_path / "warehouse")


def table_of(profile: Profile) -> ServiceTable:
    """The table as a process of its own has it."""
    table = ServiceTable("ops", CatalogReader(profile))
    table.ensure()
    return table


def test_a_lease_that_another_process_took_meanwhile_is_not_taken(profile: Profile) -> None:
    first, second = table_of(profile), table_of(profile)
    first.commit_lease(None, Held("a:1:x", 9e9))
    with pytest.raises(CommitConflict):
        second.commit_lease(None, Held("b:1:x", 9e9))
    assert second.observe_lease() == Held("a:1:x", 9e9)


def test_of_processes_that_ask_at_once_one_leads(profile: Profile) -> None:
    tables = [table_of(profile) for _ in range(5)]
    together = threading.Barrier(5)

    def leads(number: int) -> bool:
        lease = Lease(tables[number], TIMES, f"elsewhere:{number}:x")
        together.wait(30)
        return lease.take_lease() is None

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(leads, range(5))) == 1


def test_what_is_paused_outlasts_a_service_and_a_change_of_its_leader(profile: Profile) -> None:
    table = table_of(profile)
    Lease(table, TIMES, "a:1:x").take_lease()
    table.change_paused(lambda paused: paused.pause(["lake.dwd.orders"], upkeep_only=False))
    table.change_paused(lambda paused: paused.pause(["lake.dws.daily"], upkeep_only=True))
    table.commit_lease(table.observe_lease(), Held("b:1:x", 9e9))

    result = table_of(profile)
    assert result.read_paused() == Paused(False, frozenset({"lake.dwd.orders"}), frozenset({"lake.dws.daily"}))
    assert result.observe_lease() == Held("b:1:x", 9e9)


def test_when_models_were_run_outlasts_a_service_and_its_signs_of_life(profile: Profile) -> None:
    table = table_of(profile)
    assert table.list_run_times() == {}
    table.note_run({"model.shop.daily": 1.5, "model.shop.weekly": 2.25})
    lease = Lease(table, TIMES, "a:1:x")
    for _ in range(3):
        lease.take_lease()
    table.note_run({"model.shop.daily": 1000.125})
    table.change_paused(lambda paused: paused.pause(["lake.dwd.orders"], upkeep_only=False))
    assert table_of(profile).list_run_times() == {"model.shop.daily": 1000.125, "model.shop.weekly": 2.25}
    assert lease.take_lease() is None


def test_a_pause_of_everything_ends_with_everything(profile: Profile) -> None:
    paused = Paused().pause((), upkeep_only=False)
    assert paused.everything
    assert paused.resume(["t"]).everything
    assert paused.pause(["t"], upkeep_only=True).resume(()) == Paused()


def test_the_table_stays_small_however_long_the_service_runs(profile: Profile) -> None:
    profile = replace(profile, thresholds=changed(profile.thresholds, service={"lease_snapshots": 10}))
    table = table_of(profile)
    lease = Lease(table, TIMES, "a:1:x")
    for _ in range(25):
        lease.take_lease()
    reader = CatalogReader(profile)
    assert len(reader.load_table("ops", table.table.name).metadata.snapshots) <= 11
    assert table.observe_lease() is not None
