"""The lease on a source, in a catalog in a database and in one that only Spark can change."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema

from arctic_runtime.catalog.lease import Held
from arctic_runtime.catalog.observation.tables import observe_progress
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.dead_letters.lease import SourceLease
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import LEASE, LEASE_UNTIL
from arctic_runtime.profile import Profile
from arctic_runtime.thresholds import IngestThresholds, Thresholds
from tests.simulation.lake import Catalog
from tests.simulation.runtime import Reader
from tests.simulation.spark import Spark

OFTEN = Thresholds(ingest=IngestThresholds(lease_renewal_seconds=0.05))


def refuse_spark() -> Any:
    raise AssertionError("a lease in a database needs no Spark")


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A warehouse with a dead letter table."""
    profile = Profile.for_embedded(tmp_path / "warehouse")
    reader = CatalogReader(profile)
    reader.create_namespace("ods")
    reader.catalog.create_table(("ods", "shop__dead_letters"), Schema())
    return profile


def lease_of(profile: Profile, holder: str | None = None) -> SourceLease:
    """The lease as a process of its own has it."""
    return SourceLease(
        TableName(profile.catalog, "ods", "shop__dead_letters"), CatalogReader(profile), refuse_spark, holder
    )


def test_a_renewal_is_seen_at_once_and_adds_no_snapshot(profile: Profile) -> None:
    lease = lease_of(profile)
    for _ in range(3):
        assert lease.take_lease() is None
    reader = CatalogReader(profile)
    progress = observe_progress(reader, lease.table)
    assert progress is not None
    assert progress.ingested_by == Held(lease.holder, 0).process
    assert progress.ingested_until is not None
    assert progress.ingested_until.timestamp() > time.time()
    assert not reader.load_table("ods", "shop__dead_letters").snapshots()


def test_of_processes_that_ask_at_once_one_ingests(profile: Profile) -> None:
    together = threading.Barrier(5)

    def takes(number: int) -> bool:
        lease = lease_of(profile, f"elsewhere:{number}:x")
        together.wait(30)
        return lease.take_lease() is None

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(takes, range(5))) == 1


def test_a_renewal_beside_other_changes_of_the_table_loses_none_of_them(profile: Profile) -> None:
    lease = lease_of(profile)
    table = CatalogReader(profile).load_table("ods", "shop__dead_letters")
    for number in range(5):
        assert lease.take_lease() is None
        with table.refresh().transaction() as transaction:
            transaction.set_properties({f"other.{number}": "x"})
    assert lease.take_lease() is None
    properties = table.refresh().properties
    assert {f"other.{number}" for number in range(5)} <= set(properties)
    assert properties[LEASE] == lease.holder


class Shared:
    """A catalog that only Spark can change, with a dead letter table."""

    def __init__(self) -> None:
        self.lake = Catalog(time.time)
        self.table = TableName("lake", "ods", "shop__dead_letters")
        self.lake.create_table((self.table.schema, self.table.name), (), {}, ((), {}))

    def lease(self, holder: str, before_commit: Any = None) -> SourceLease:
        profile = Profile("lake", {"type": "rest", "uri": "http://catalog"}, thresholds=OFTEN)

        def take_spark() -> Any:
            if before_commit is not None:
                before_commit()
            return Spark(self.lake)

        return SourceLease(self.table, Reader(profile, self.lake, lambda _: None), take_spark, holder)


def test_a_process_that_commits_first_keeps_the_lease_where_only_spark_can_write() -> None:
    shared = Shared()
    first, second = shared.lease("elsewhere:1:x"), shared.lease("elsewhere:2:x")
    assert first.take_lease() is None
    other = second.take_lease()
    assert other is not None
    assert other.holder == first.holder
    first.end_lease()
    assert second.take_lease() is None
    other = first.take_lease()
    assert other is not None
    assert other.holder == second.holder


def test_of_two_that_commit_at_once_where_only_spark_can_write_the_last_has_the_lease() -> None:
    shared = Shared()
    last = shared.lease("elsewhere:2:x")
    names = (shared.table.schema, shared.table.name)

    def take_between() -> None:
        """The first one has looked, and has not committed yet."""
        shared.lake.set_properties(names, Held(last.holder, time.time() + 60).encode())

    first = shared.lease("elsewhere:1:x", take_between)
    assert first.take_lease() is None
    assert first.is_own()
    shared.lake.set_properties(names, Held(last.holder, time.time() + 60).encode())
    lost = threading.Event()
    with pytest.raises(ConfigError, match="another process"), first.renew_in_background(lost.set):
        assert lost.wait(30)
    assert last.is_own()
    assert LEASE_UNTIL in shared.lake.get_table(names).properties
