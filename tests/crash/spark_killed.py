"""A process that serves a warehouse, and whose Java is killed when the service comes to an effect.

Arguments, as one JSON object: the `warehouse`, and the `name` of the effect. It ends as `arctic serve` does.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import SparkEnded
from arctic_runtime.profile import Profile
from arctic_runtime.service.service import Service
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.session import SparkEnvironment
from dbt.adapters.arctic.commands.termination import FAILED, stop_with_spark
from tests.crash.child import SETTINGS
from tests.crash.served import COLUMNS, MOST_BATCHES, batch, build, project
from tests.spark.serving import to_warehouse
from tests.spark.warehouse import Warehouse


def main(warehouse: str, name: str) -> int:
    environment = SparkEnvironment(Profile.for_embedded(warehouse, settings={**SETTINGS, "spark.master": "local[2]"}))
    reader = CatalogReader(environment.profile)
    reader.create_namespace("shop")
    lake = Warehouse(environment, reader, environment.new_session(), "shop")
    build(lake)
    served = project(lake, edited=False)
    service = Service(served, to_warehouse(served.lake))
    writing = threading.Thread(target=write, args=(lake,), daemon=True)
    try:
        with (
            set_failpoint(killing(name)),
            stop_with_spark("serve", service.end_without_spark, reader.thresholds.engine),
        ):
            writing.start()
            service.run_service()
    except SparkEnded as error:
        print(f"{name}: {service.live.get_state().role}: {error}", flush=True)
        return FAILED
    return 0


def killing(last: str) -> Callable[[str, Callable[[], Any]], Any]:
    """A failpoint that kills Java before an effect."""

    def reach(name: str, action: Callable[[], Any]) -> Any:
        if name == last and PROCESS.jvm is not None:
            PROCESS.jvm.kill()
        return action()

    return reach


def write(lake: Warehouse) -> None:
    """Brings events until Spark is gone."""
    with suppress(Exception):
        for number in range(1, MOST_BATCHES):
            lake.append("events", batch(number), COLUMNS)


if __name__ == "__main__":
    sys.exit(main(**json.loads(sys.argv[1])))
