"""A process that runs a model, and whose Java stops while it writes to a table, until somebody lets it go on.

Arguments, as one JSON object: the profile's `catalog` and `properties`, the model's `schema`, `name`, `sql` and
`config`, and the table whose write is to stop. It prints the id of its Java when that has stopped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import set_failpoint
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BRANCH_PREFIX
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.refresh.run import Refresh
from tests.crash.child import SETTINGS


def main(given: dict[str, Any]) -> None:
    profile = Profile(given["catalog"], given["properties"], settings={**SETTINGS, "spark.master": "local[2]"})
    table = TableName(given["catalog"], given["schema"], given["stops_at"])
    environment, reader = SparkEnvironment(profile), CatalogReader(profile)
    effect = "commit.append" if table.name.endswith("__changes") else "base.merge.append"
    stopping: list[threading.Thread] = []

    def watched(reached: str, action: Callable[[], Any]) -> Any:
        if reached == effect and not stopping:
            parts = (environment.new_session(), reader, table)
            stopping.append(threading.Thread(target=stop_while_written, args=parts, daemon=True))
            stopping[0].start()
        return action()

    name = given["name"]
    model = Model(
        TableName(given["catalog"], given["schema"], name), given["sql"], read_configuration(given["config"], name)
    )
    with set_failpoint(watched):
        print("ran", Refresh.from_model(model, reader, environment.new_session).run_refresh().mode, flush=True)


def stop_while_written(spark: SparkSession, reader: CatalogReader, table: TableName) -> None:
    """Stops Java once a job writes to a branch of the table: Spark has found the branch by then."""
    assert PROCESS.jvm is not None
    java = PROCESS.jvm.pid
    tracker = spark.sparkContext.statusTracker()
    while True:
        refs = reader.load_table(table.schema, table.name).metadata.refs
        if any(ref.startswith(BRANCH_PREFIX) for ref in refs) and tracker.getActiveStageIds():
            break
        time.sleep(0.005)
    os.kill(java, signal.SIGSTOP)
    print("stopped", java, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
