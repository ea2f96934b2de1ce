"""A process that does several scenarios, each up to one effect, and waits there until it is killed.

Arguments, as one JSON object: the `warehouse`, and `parks`, pairs of a scenario and the name of the effect before which
it stops. The scenarios run one after the other, in the namespaces that were built for them. It prints the id of its
Java and each name that it reached, says that all are `parked`, and waits.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import set_failpoint
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from tests.crash.child import SETTINGS
from tests.crash.scenarios import SCENARIOS, namespace_of
from tests.spark.warehouse import Warehouse
from tests.thresholds import STEADY


class Park:
    """A failpoint that stops one thread for ever at a name, once; other threads and names go on."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.stopped = threading.Event()

    def __call__(self, name: str, action: Callable[[], Any]) -> Any:
        if name == self.name:
            self.name = None
            self.stopped.set()
            threading.Event().wait()
        return action()

    def reaches(self, name: str, action: Callable[[], object]) -> bool:
        """Whether an action that runs on in a thread of its own comes to a name."""
        self.name, self.stopped = name, threading.Event()
        ended = threading.Event()

        def run() -> None:
            try:
                action()
            finally:
                ended.set()
                self.stopped.set()

        threading.Thread(target=run, daemon=True).start()
        self.stopped.wait()
        return not ended.is_set()


def main(warehouse: str, parks: list[tuple[str, str]]) -> None:
    environment = SparkEnvironment(Profile.for_embedded(warehouse, settings=SETTINGS, thresholds=STEADY))
    reader, park = CatalogReader(environment.profile), Park()
    print("java", java_of(environment.new_session()))
    with set_failpoint(park):
        for key, name in parks:
            lake = Warehouse(environment, reader, environment.new_session(), namespace_of(key))
            if park.reaches(name, lambda key=key, lake=lake: SCENARIOS[key].act(lake)):  # type: ignore[misc]
                print(name, "reached")
    print("parked", flush=True)
    threading.Event().wait()


def java_of(session: SparkSession) -> int:
    """The id of the process that a session's Spark runs in."""
    (row,) = session.sql("select java_method('java.lang.ProcessHandle', 'current')").collect()
    return int(row[0])


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
