"""A process that runs models, each up to one of its effects, and waits there until it is killed.

Arguments, as one JSON object: `properties` and `settings` of the profile, the `schema`, and `parks`, pairs of a model's
name and an effect. Each model keeps the rows of the table `landed`. It prints the id of its Java and each name that it
reached, says that all are `parked`, and waits.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import set_failpoint
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.session import SparkEnvironment
from tests.crash.parked import Park
from tests.spark.warehouse import Warehouse


def main(properties: dict[str, str], settings: dict[str, str], schema: str, parks: list[tuple[str, str]]) -> None:
    environment = SparkEnvironment(Profile("lake", properties, settings=settings))
    reader, park = CatalogReader(environment.profile), Park()
    lake = Warehouse(environment, reader, environment.new_session(), schema)
    assert PROCESS.jvm is not None
    print("java", PROCESS.jvm.pid, flush=True)
    with set_failpoint(park):
        for name, effect in parks:
            model = keep_landed_rows(lake, name)
            assert park.reaches(effect, lambda model=model: lake.run(model, environment.new_session)), effect
            print(name, effect, flush=True)
        print("parked", flush=True)
        threading.Event().wait()


def keep_landed_rows(lake: Warehouse, name: str) -> Any:
    """The model that keeps the newest row of each key in the table `landed`."""
    return lake.model(
        name, "select id, amount, lsn from {changes(landed)}", primary_key="id", input="changes", sequence_by="lsn"
    )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
