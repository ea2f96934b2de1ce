"""A server that answers as services of AWS do: `python -m tests.open.moto_server` prints its address.

It keeps all in memory, listens on the loopback alone, and ends when its standard input does.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"
KEY_ID = "a-key-id-of-tests"
SECRET = "a-secret-of-tests"
AGING = "/tests/age"


@dataclass(frozen=True)
class MotoServer:
    """A running server: its address, and its process."""

    endpoint: str
    process: subprocess.Popen[str]
    key_id: str = KEY_ID
    """Id of the access key with which tests prepare objects and look at them."""

    def build_client(self, service: str) -> Any:
        """Builds boto3's client of a service, such as `s3` or `glue`."""
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.key_id,
            aws_secret_access_key=SECRET,
        )

    def create_bucket(self) -> str:
        """Creates an empty bucket; returns its name, which no other has."""
        name = f"lake-{uuid.uuid4().hex[:12]}"
        self.build_client("s3").create_bucket(Bucket=name)
        return name

    def list_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Lists the keys of all objects of a bucket that begin with `prefix`."""
        pages = self.build_client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def age_objects(self, bucket: str, prefix: str, days: int) -> None:
        """Makes all objects whose keys begin with `prefix` older by some days, as only time does elsewhere."""
        import requests

        asked = {"bucket": bucket, "prefix": prefix, "days": str(days)}
        requests.post(f"{self.endpoint}{AGING}", params=asked, timeout=30).raise_for_status()

    @property
    def file_properties(self) -> dict[str, str]:
        """Properties by which Iceberg and pyiceberg reach the server's S3."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": KEY_ID,
            "s3.secret-access-key": SECRET,
            "s3.path-style-access": "true",
            "client.region": REGION,
        }

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which all libraries of AWS talk to the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def run_moto(module: str = "tests.open.moto_server") -> Iterator[MotoServer]:
    """Starts a server in a process of its own, whose program is `module`, and ends it afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address, "moto did not start"
        yield MotoServer(address, process)
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()


def serve_aging(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answers `MotoServer.age_objects`."""
    from moto.backends import get_backend

    asked = {key: values[0] for key, values in parse_qs(environ["QUERY_STRING"]).items()}
    keys = get_backend("s3")["123456789012"]["aws"].buckets[asked["bucket"]].keys
    for name, key in keys.items():
        if name.startswith(asked["prefix"]):
            key.last_modified -= timedelta(days=int(asked["days"]))
    start_response("200 OK", [("Content-Length", "0")])
    return []


def main(guard: Callable[[Any], Any] = lambda application: application) -> None:
    """Answers requests until standard input ends; `guard` returns an application that may answer in moto's place."""
    import logging

    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = guard(DomainDispatcherApplication(create_backend_app))

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        return (serve_aging if environ["PATH_INFO"] == AGING else moto)(environ, start_response)

    server = make_server("127.0.0.1", 0, answer, threaded=True)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
