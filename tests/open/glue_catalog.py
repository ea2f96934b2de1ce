"""Glue as a catalog: moto, which refuses stale versions here as Glue does: `python -m tests.open.glue_catalog`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.open.moto_server import KEY_ID, REGION, SECRET, main, run_moto

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": KEY_ID,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Credentials for the clients of AWS in Java, which read them from the environment that Spark is started with."""


@contextmanager
def run_glue_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """Starts a Glue, and yields the properties of a catalog in it whose tables lie in `folder`."""
    with run_moto("tests.open.glue_catalog") as server:
        yield {
            "type": "glue",
            "glue.endpoint": server.endpoint,
            "glue.region": REGION,
            "glue.access-key-id": KEY_ID,
            "glue.secret-access-key": SECRET,
            "client.region": REGION,
            "warehouse": f"file://{folder}",
            "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        }


def refuse_stale_versions() -> None:
    """Makes moto compare the version that an update of a table is based on, and refuse it if it is not the newest."""
    from moto.core.exceptions import JsonRESTError
    from moto.glue.responses import GlueResponse

    update, lock = GlueResponse.update_table, threading.Lock()

    def update_newest(self: GlueResponse) -> str:
        with lock:
            named = self.parameters.get("TableInput", {}).get("Name")
            newest = self.glue_backend.get_table(self.parameters.get("DatabaseName"), named).as_dict()["VersionId"]
            expected = self.parameters.get("VersionId")
            if expected is not None and expected != newest:
                raise JsonRESTError(
                    "ConcurrentModificationException", f"Update table failed due to concurrent modifications: {named}"
                )
            return update(self)

    GlueResponse.update_table = update_newest


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    refuse_stale_versions()
    main()
