"""Samples of all tables over days: they outlast a service, are few files, and are dropped when they are old."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.lease import Held, Lease, LeaseTimes
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.catalog.table_samples import TableSample, TableSamples, get_day
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import CommitConflict
from arctic_runtime.profile import Profile

NOON = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
DAY, QUARTER = timedelta(days=1), timedelta(minutes=15)


@pytest.fixture
def table(tmp_path: Path) -> ServiceTable:
    table = ServiceTable("ops", CatalogReader(Profile.for_embedded(tmp_path / "warehouse")))
    table.ensure()
    return table


def samples_of(table: ServiceTable) -> TableSamples:
    """As a process of its own has them."""
    return TableSamples(table.table, table._reader)


def take(at: datetime, *names: str) -> list[TableSample]:
    return [TableSample(at, name, n, None if n == 0 else 1.5 * n, "fresh") for n, name in enumerate(names)]


def list_files(table: ServiceTable) -> list[Path]:
    location = table._reader.load_table("ops", table.table.name).location()
    return sorted(Path(location.removeprefix("file://")).rglob("*.parquet"))


def test_samples_outlast_a_service_and_are_read_by_table(table: ServiceTable) -> None:
    assert samples_of(table).read_samples(NOON - DAY) == []
    first, second = take(NOON, "lake.a", "lake.b"), take(NOON + QUARTER, "lake.a", "lake.b")
    samples_of(table).replace_days(first, NOON - 14 * DAY)
    samples_of(table).replace_days([*first, *second], NOON - 14 * DAY)
    assert samples_of(table).read_samples(NOON) == [*first, *second]
    assert samples_of(table).read_samples(NOON, "lake.b") == [first[1], second[1]]
    assert samples_of(table).read_samples(NOON + QUARTER, "lake.b") == [second[1]]
    assert samples_of(table).read_samples(NOON, "lake.c") == []


def test_a_day_is_one_file_and_old_days_are_dropped_with_their_files(table: ServiceTable) -> None:
    for day in range(5):
        taken: list[TableSample] = []
        for quarter in range(3):
            at = NOON + day * DAY + quarter * QUARTER
            taken += take(at, "lake.a", "lake.b")
            samples_of(table).replace_days(taken, at - 2 * DAY)
    assert len(list_files(table)) == 3
    days = {get_day(sample.sampled_at) for sample in samples_of(table).read_samples(NOON - 9 * DAY)}
    assert sorted(days) == [get_day(NOON) + day * DAY for day in (2, 3, 4)]


def test_samples_and_the_lease_of_a_service_do_not_disturb_each_other(table: ServiceTable) -> None:
    lease = Lease(table, LeaseTimes(60, 20, 5), "a:1:x")
    lease.take_lease()
    table.change_paused(lambda paused: paused.pause(["lake.a"], upkeep_only=False))
    samples_of(table).replace_days(take(NOON, "lake.a"), NOON - DAY)
    assert table.read_paused().tables == {"lake.a"}
    assert lease.is_own()
    for _ in range(3):
        assert lease.take_lease() is None
    assert len(samples_of(table).read_samples(NOON)) == 1


def test_a_sample_beside_a_renewal_of_the_lease_is_written_again(table: ServiceTable) -> None:
    taken = take(NOON, "lake.a")
    samples_of(table).replace_days(taken, NOON - DAY)
    ran: list[str] = []

    def renew_first(name: str, action: Any) -> Any:
        ran.append(name)
        if ran.count("service.commit") == 1 and name == "service.commit":
            table.commit_lease(table.observe_lease(), Held("b:1:x", 9e9))
        return action()

    with set_failpoint(renew_first):
        samples_of(table).replace_days([*taken, *take(NOON + QUARTER, "lake.a")], NOON - DAY)
    assert len(samples_of(table).read_samples(NOON)) == 2
    assert len(list_files(table)) == 1


def test_a_sample_that_always_loses_is_refused_and_leaves_the_samples_before(table: ServiceTable) -> None:
    taken = take(NOON, "lake.a")
    samples_of(table).replace_days(taken, NOON - DAY)

    def refuse(name: str, action: Any) -> Any:
        raise CommitConflict("another was faster")

    with set_failpoint(refuse), pytest.raises(CommitConflict):
        samples_of(table).replace_days([*taken, *take(NOON + QUARTER, "lake.a")], NOON - DAY)
    assert samples_of(table).read_samples(NOON) == taken


def test_a_clock_that_is_set_back_over_midnight_repeats_no_sample(table: ServiceTable) -> None:
    midnight = get_day(NOON) + DAY
    after, before = take(midnight + QUARTER, "lake.a"), take(midnight - QUARTER, "lake.a")
    samples_of(table).replace_days(after, NOON - DAY)
    samples_of(table).replace_days([*after, *before], NOON - DAY)
    again = take(midnight, "lake.a")
    for taken in ([*before, *after, *again], [*after, *again]):
        samples_of(table).replace_days(taken, NOON - DAY)
        assert samples_of(table).read_samples(NOON) == [*before, *again, *after]
