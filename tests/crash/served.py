"""A warehouse that a service keeps: events come in, models follow, and upkeep is due all the time.

Run as a module it is a process that serves one such warehouse after the other, each until the service comes to one
effect: there the service stops for ever, as does every thread of it that comes to an effect later. Arguments, as one
JSON object: the `warehouse` and the `names` of effects. It prints the id of its Java, and for each name the number of
batches of events that there are by then; then it says that all are `stopped`, and waits until it is killed.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import set_failpoint
from arctic_runtime.model.table import Model, ModelConfig, Retention
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from tests.crash.child import SETTINGS
from tests.crash.parked import java_of
from tests.spark.serving import OFTEN, Project, running
from tests.spark.warehouse import Rows, Warehouse

COLUMNS = "id int, region string, v int, op string, lsn bigint"
SECOND = Retention(versions_seconds=1, changes_seconds=1)
THRESHOLDS: Mapping[str, Mapping[str, Any]] = {
    "service": {**OFTEN["service"], "lease_snapshots": 4, "kept_lease_snapshots": 2},
    "upkeep": {**OFTEN["upkeep"], "look_seconds": 0.5, "retry_seconds": 0.2},
    "compaction": {"commit_bytes": 0, "open_file_bytes": 1 << 30},
    "merge": {"unmerged_commits": 3, "longest_wait_factor": 1.0},
    "base_rewrite": {"part_bytes": 1, "parts": 2, "changed_share": 0.01},
    "changelog": {"compactions": 1000},
    "expiry": {"snapshots": 1, "snapshot_share": 0.0, "view_tag_seconds": 0},
}
"""With these, each batch of events makes upkeep due."""

EDITED_AFTER = 4
"""So many batches of events after which a model gets another column."""

MOST_BATCHES = 120


def models(lake: Warehouse, edited: bool) -> tuple[Model, ...]:
    """The newest state of each key, merged on read; a partitioned table of it; an aggregate, and a small one."""
    merges = {"compaction": {"change_files": 2, "small_files": 2}}
    latest = lake.model(
        "latest", "select id, region, v, op, lsn from {changes(events)}",
        primary_key="id", input="changes", sequence_by="lsn", delete_when="op = 'd'", exclude_columns=["op", "lsn"],
        merge="on_read", nodes=2, sort_key=["v"], **merges,
    )  # fmt: skip
    more = ", -v as minus" if edited else ""
    parted = lake.model(
        "parted", f"select id, region, v{more} from {{latest}}", primary_key="id", partition_by=["region"], **merges
    )
    regions = lake.model(
        "regions", "select region, count(*) as n, sum(v) as v from {parted} group by region",
        primary_key="region", refresh="incremental", **merges,
    )  # fmt: skip
    newest = lake.model("newest", "select max(v) as v from {latest}", primary_key=[], **merges)
    return tuple(
        replace(model, config=replace(model.config, retention=SECOND)) for model in (latest, parted, regions, newest)
    )


def project(lake: Warehouse, edited: bool) -> Project:
    lake = lake.under(**THRESHOLDS)
    events = Model(lake.table("events"), "", ModelConfig((), retention=SECOND), is_landing=True)
    return Project(lake, models(lake, edited), (events,))


def batch(number: int) -> Rows:
    """Events of twenty keys, of which some are deleted."""
    rows = []
    for place in range(20):
        key, lsn = (7 * number + place) % 40, 100 * number + place
        rows.append((key, f"r{key % 3}", lsn, "d" if (number + place) % 9 == 0 else "u", lsn))
    return rows


def expected(batches: int, since: int = 0) -> dict[str, Rows]:
    """What the tables show after so many batches, without those that came before another one."""
    newest = {row[0]: row for number in range(since, batches) for row in batch(number)}
    latest = [row[:3] for row in newest.values() if row[3] != "d"]
    regions = {region: [row[2] for row in latest if row[1] == region] for region in {row[1] for row in latest}}
    return {
        "latest": sorted(latest, key=repr),
        "parted": sorted(((*row, -row[2]) for row in latest), key=repr),
        "regions": sorted(((region, len(value), sum(value)) for region, value in regions.items()), key=repr),
        "newest": [(max(row[2] for row in latest),)],
    }


class Life:
    """A service's life, which is over when one of its threads comes to an effect."""

    def __init__(self, last: str) -> None:
        self.last = last
        self.over = threading.Event()


def stops_with_its_life(name: str, action: Callable[[], Any]) -> Any:
    """A failpoint: nothing that belongs to a life takes place once that is over."""
    life: Life | None = getattr(threading.current_thread(), "life", None)
    if life is not None and (life.over.is_set() or name == life.last):
        life.over.set()
        threading.Event().wait()
    return action()


def threads_inherit_lives() -> None:
    """From here on a thread belongs to the life of the one that starts it."""
    start = threading.Thread.start

    def inheriting(self: threading.Thread) -> None:
        self.life = getattr(threading.current_thread(), "life", None)  # type: ignore[attr-defined]
        start(self)

    threading.Thread.start = inheriting  # type: ignore[method-assign]


def build(lake: Warehouse) -> None:
    """The first events, and the model that reads them: old ones that it had not read would go unread."""
    lake.append("events", batch(0), COLUMNS)
    lake.run(models(lake, edited=False)[0])


def serve_until(lake: Warehouse, name: str) -> int | None:
    """Serves until the service comes to an effect; how many batches there are by then, None where it does not."""
    served, life = project(lake, edited=False), Life(name)
    build(lake)

    def begin() -> None:
        threading.current_thread().life = life  # type: ignore[attr-defined]
        begun.append(running(served))

    begun: list[Any] = []
    starter = threading.Thread(target=begin)
    starter.start()
    starter.join()
    for number in range(1, MOST_BATCHES):
        if life.over.wait(0.4):
            begun[0].service.stop_service()
            return number
        lake.append("events", batch(number), COLUMNS)
        if number == EDITED_AFTER:
            served.edit(*models(served.lake, edited=True))
    return None


def namespace_of(name: str) -> str:
    return "served_" + name.replace(".", "_")


def main(warehouse: str, names: list[str]) -> None:
    threads_inherit_lives()
    environment = SparkEnvironment(Profile.for_embedded(warehouse, settings={**SETTINGS, "spark.master": "local[2]"}))
    reader = CatalogReader(environment.profile)
    print("java", java_of(environment.new_session()), flush=True)
    with set_failpoint(stops_with_its_life):
        for name in names:
            reader.create_namespace(namespace_of(name))
            lake = Warehouse(environment, reader, environment.new_session(), namespace_of(name))
            batches = serve_until(lake, name)
            if batches is not None:
                print(name, batches, flush=True)
    print("stopped", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
