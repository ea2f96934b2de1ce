"""`python -m tests.soak --minutes N --seed N --json FILE`: everything at once on real servers, with faults.

A service ingests a PostgreSQL and a MariaDB and keeps models fresh, while `dbt build`, `dbt run` and operations run
beside it, rows change, and faults happen. Each read of a table must see whole transactions. In the end all tables must
have what the databases say. Ends with 1 if something is not as it must be, and keeps the folder then.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.soak.databases import Databases, Row
from tests.soak.faults import Faults
from tests.soak.processes import Commands, Group
from tests.soak.project import write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVE = ("arctic", "serve", "--port", "0")
SUMS = ("ods.accounts", "dwd.accounts", "dwd.regions")
"""Tables whose balances are 0 in all, in each version."""

SIZES_SECONDS = 15.0
WARM_SECONDS = 600.0
"""Time after which what a service takes of the machine must no longer grow."""

CATCH_UP_SECONDS = 600.0


class Service:
    """The service, which is started again whenever it has ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.group = Group(folder, SERVE, folder / "serve.log")
        self.starts, self.own_ends = 1, 0
        self.sizes: list[dict[str, float]] = []

    def get_group(self) -> Group:
        return self.group

    def look(self, seconds: float, measure_age: Callable[[], Mapping[str, float]] = dict) -> None:
        """Starts the service again if it has ended; notes now and then what it takes of the machine.

        `measure_age` returns the seconds by which a table is behind as `seconds_behind`, or nothing.
        """
        if self.group.is_running:
            if not self.sizes or seconds >= self.sizes[-1]["seconds"] + SIZES_SECONDS:
                now = {"seconds": round(seconds, 1), "start": self.starts}
                self.sizes.append({**now, **self.group.read_sizes(), **measure_age()})
            return
        self.own_ends += not self.group.was_hurt
        self.starts += 1
        self.group = Group(self._folder, SERVE, self._folder / "serve.log")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=650, help="changed rows a second, about")
    parser.add_argument("--fault-seconds", type=float, default=45.0, help="between two faults; 0 for none")
    parser.add_argument("--programs", type=int, default=2, help="programs beside the service, each one at a time")
    parser.add_argument("--pause-seconds", type=float, default=20.0, help="between two commands of a program")
    parser.add_argument("--json", type=Path, help="file that gets the report")
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="arctic-soak-"))
    databases = Databases(given.seed, given.rows)
    try:
        report = soak(folder, databases, given)
    finally:
        databases.remove()
    print(json.dumps({name: value for name, value in report.items() if name != "sizes"}, indent=2))
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if report["wrong"]:
        print(f"the folder is kept: {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


def soak(folder: Path, databases: Databases, given: argparse.Namespace) -> dict[str, Any]:
    """Runs everything for the minutes that are given, and returns the report."""
    write_project(folder, *databases.build_connections())
    service = Service(folder)
    commands = [Commands(folder, given.seed, n, given.pause_seconds) for n in range(given.programs)]
    faults = Faults(
        given.seed, given.fault_seconds or 1e9, databases, folder / "warehouse", service.get_group, commands
    )
    wrong: list[str] = []
    began, reads = time.monotonic(), Counter[str]()
    is_over = threading.Event()
    changing = threading.Thread(target=_repeat, args=(databases.change_rows, 1.0, is_over), daemon=True)
    try:
        spark = _open_spark(folder)
        _wait(lambda: _count(spark, "dwd.cities") > 0, service, began, 300)
        for thread in (changing, faults, *commands):
            thread.start()
        end = time.monotonic() + 60 * given.minutes
        while time.monotonic() < end:
            service.look(time.monotonic() - began, lambda: _measure_age(spark, databases))
            wrong += _read_sums(spark, reads)
            time.sleep(1)
        faults.end()
        for program in commands:
            program.end()
        is_over.set()
        changing.join()
        rows = databases.read_rows()
        stopped = time.monotonic()
        caught_up = _wait(lambda: not _list_differences(spark, rows), service, began, CATCH_UP_SECONDS)
        if not caught_up:
            wrong += [f"not caught up: {name}" for name in _list_differences(spark, rows)]
        late = time.monotonic() - stopped
        code = service.group.end(120)
        wrong += [f"the service ended with {code}"] if code else []
        wrong += _verify(folder)
        wrong += [f"stuck: {words}" for program in commands for words in program.stuck]
    finally:
        for group in (service.group, *(program.group for program in commands)):
            if group is not None:
                group.send(signal.SIGKILL)
    return {
        "seed": given.seed,
        "minutes": given.minutes,
        "changed_rows": databases.changed_rows,
        "reads": dict(reads),
        "faults": dict(faults.done),
        "commands": dict(sum((program.ended for program in commands), Counter())),
        "starts_of_the_service": service.starts,
        "ends_of_the_service_without_a_fault": service.own_ends,
        "seconds_until_all_was_equal": round(late, 1),
        "growth": compute_growth(service.sizes),
        "wrong": sorted(set(wrong)),
        "sizes": service.sizes,
    }


def compute_growth(sizes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Computes by which factor the service's last process grew from its first warm minutes to its last ones.

    Both are medians of a fifth of its time after WARM_SECONDS; empty if it did not run for long enough.
    """
    last = [one for one in sizes if one["start"] == sizes[-1]["start"]]
    warm = [one for one in last if one["seconds"] >= last[0]["seconds"] + WARM_SECONDS]
    part = len(warm) // 5
    if part == 0:
        return {}
    before, after = warm[:part], warm[-part:]
    return {
        name: round(statistics.median(one.get(name, 0) for one in after) / middle, 3)
        for name in warm[0]
        if name not in ("seconds", "start") and (middle := statistics.median(one.get(name, 0) for one in before))
    }


def _open_spark(folder: Path) -> SparkSession:
    import arctic_runtime as arctic

    return arctic.open_project(folder, profiles_dir=folder).spark


def _repeat(action: Callable[[], object], each_seconds: float, is_over: threading.Event) -> None:
    while not is_over.is_set():
        began = time.monotonic()
        action()
        is_over.wait(max(0.0, each_seconds - (time.monotonic() - began)))


def _wait(holds: Callable[[], bool], service: Service, began: float, seconds: float) -> bool:
    """Waits until something holds, and keeps the service running; returns whether it does."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        service.look(time.monotonic() - began)
        time.sleep(1)
    return True


def _count(spark: SparkSession, table: str) -> int:
    return spark.table(table).count() if spark.catalog.tableExists(table) else 0


def _measure_age(spark: SparkSession, databases: Databases) -> dict[str, float]:
    """Measures the seconds by which the model of open orders is behind; nothing if it can't be read now."""
    with suppress(Exception):  # A reader sees an error of the catalog as it is.
        ((newest,),) = spark.sql("select max(id) from dwd.open_orders").collect()
        return {"seconds_behind": round(databases.compute_age(newest), 1)}
    return {}


def _read_sums(spark: SparkSession, reads: Counter[str]) -> list[str]:
    """Reads the balances of a table in one version; describes those that are not 0."""
    wrong = []
    for table in SUMS:
        try:
            ((total, count),) = spark.sql(f"select sum(balance), count(*) from {table}").collect()
        except Exception as error:  # A reader sees an error of the catalog as it is, and asks again.
            reads[f"{table}: {type(error).__name__}"] += 1
            continue
        reads[table] += 1
        if total != 0:
            wrong.append(f"{table} showed a part of a transaction: its balances are {total} in {count} rows")
    return wrong


def _list_differences(spark: SparkSession, expected: dict[str, list[Row]]) -> list[str]:
    """Lists the tables that do not have the expected rows, with the numbers of rows on either side alone."""
    different = []
    for table, rows in expected.items():
        names = [name for name in spark.table(table).columns if not name.startswith("_")]
        found = sorted(tuple(map(str, row)) for row in spark.table(table).select(*names).collect())
        if found != rows:
            there, missing = set(found) - set(rows), set(rows) - set(found)
            different.append(f"{table}: {len(there)} unexpected, {len(missing)} missing of {len(rows)} rows")
    return different


def _verify(folder: Path) -> list[str]:
    """Verifies all models by the command for it; describes what it finds."""
    log = folder / "verify.log"
    code = Group(folder, ("arctic", "verify"), log).wait(600)
    return [] if code == 0 else [f"arctic verify ended with {code}: {log.read_text()[-2000:]}"]


if __name__ == "__main__":
    sys.exit(main())
