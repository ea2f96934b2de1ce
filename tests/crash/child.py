"""A process that runs a model and kills itself while one of its writes is under way.

Arguments: the warehouse, the schema, the model's name, the table whose new files are the sign to die, the name of the
effect that writes them, and the model's query.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import set_failpoint
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.refresh.run import Refresh
from tests import java
from tests.thresholds import STEADY

SETTINGS = {
    **java.INTERPRETED,
    "spark.driver.extraJavaOptions": java.QUICK,
    "spark.driver.memory": "1g",
    "spark.master": "local[1]",
    "spark.sql.shuffle.partitions": "1",
}


def main(warehouse: str, schema: str, name: str, dies_at: str, effect: str, sql: str) -> None:
    profile = Profile.for_embedded(warehouse, settings=SETTINGS, thresholds=STEADY)
    files = Path(warehouse) / schema / dies_at / "data"

    def watched(reached: str, action: Callable[[], Any]) -> Any:
        if reached == effect:
            before = count(files)
            threading.Thread(target=die_with_more_than, args=(files, before), daemon=True).start()
        return action()

    model = Model(TableName("lake", schema, name), sql, read_configuration({"primary_key": "id"}, name))
    with set_failpoint(watched):
        Refresh.from_model(model, CatalogReader(profile), SparkEnvironment(profile).new_session).run_refresh()


def die_with_more_than(files: Path, before: int) -> None:
    while count(files) <= before:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


def count(files: Path) -> int:
    return sum(1 for file in files.rglob("*") if file.is_file())


if __name__ == "__main__":
    main(*sys.argv[1:])
