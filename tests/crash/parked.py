"""A process that does several scenarios, each up to one effect, and waits there until it is killed or may go on.

Arguments, as one JSON object: the `warehouse`, and `parks`, pairs of a scenario and the name of the effect before which
it stops. The scenarios run one after the other, in the namespaces that were built for them. It prints the id of its
Java and each name that it reached, says that all are `parked`, and waits for a line. Then all go on at once, and it
prints for each name how its scenario ended: `done`, or the kind of the error and its first line.
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
from arctic_runtime.errors import ArcticError
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.engine.spark_loss import to_spark_ended
from tests.crash.child import SETTINGS
from tests.crash.scenarios import SCENARIOS, namespace_of
from tests.spark.warehouse import Warehouse
from tests.thresholds import STEADY

NEW_LINE = "\n"


class Park:
    """A failpoint that stops one thread at a name, once, until all may go on; other threads and names go on."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.stopped = threading.Event()
        self.is_over = threading.Event()
        self.ends: dict[str, str] = {}
        self.threads: list[threading.Thread] = []

    def __call__(self, name: str, action: Callable[[], Any]) -> Any:
        if name == self.name:
            self.name = None
            self.stopped.set()
            self.is_over.wait()
        return action()

    def reaches(self, name: str, action: Callable[[], object]) -> bool:
        """Whether an action that runs on in a thread of its own comes to a name."""
        self.name, self.stopped = name, threading.Event()
        stopped = self.stopped

        def run() -> None:
            try:
                action()
            except BaseException as error:
                self.ends[name] = f"{name_error(error)} {str(error).partition(NEW_LINE)[0]}"
            else:
                self.ends[name] = "done"
            finally:
                stopped.set()

        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()
        stopped.wait()
        return name not in self.ends

    def go_on(self) -> dict[str, str]:
        """Lets all threads go on, and returns how the scenario of each name has ended."""
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        return self.ends


def name_error(error: BaseException) -> str:
    """Names the kind of an error, as commands see it: ours by one word, another by its class."""
    shown = to_spark_ended(error) or error
    return "typed" if isinstance(shown, ArcticError) else type(shown).__name__


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
    sys.stdin.readline()
    for name, end in park.go_on().items():
        print(name, end)


def java_of(session: SparkSession) -> int:
    """The id of the process that a session's Spark runs in."""
    (row,) = session.sql("select java_method('java.lang.ProcessHandle', 'current')").collect()
    return int(row[0])


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
