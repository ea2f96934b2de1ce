"""SeaweedFS as a REST catalog whose requests are signed, with its own S3 for the files, on the loopback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sample_project.servers import free_port, start_server, wait_until
from tests.open.moto_server import KEY_ID, REGION, SECRET

_SERVICES = ("master", "volume", "filer", "s3", "admin")
_BUCKET = "lake"


@contextmanager
def run_seaweedfs_catalog(folder: Path) -> Iterator[dict[str, str]]:
    """Starts SeaweedFS with its data in `folder`, and yields the properties of its catalog."""
    ports = {service: free_port() for service in _SERVICES}
    catalog = free_port()
    (folder / "data").mkdir()
    command = [
        str(Path(sys.executable).with_name("weed")),
        "mini",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        *(f"-{service}.port={port}" for service, port in ports.items()),
        *(f"-{service}.port.grpc={free_port()}" for service in _SERVICES),
        f"-s3.port.iceberg={catalog}",
        "-s3.port.lance=0",
        "-webdav=false",
        "-admin.ui=false",
        f"-tableBucket={_BUCKET}",
    ]
    account = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
    server = start_server(["env", *(f"{key}={value}" for key, value in account.items()), *command], folder, None)
    try:
        wait_until(lambda: has_started(folder), server, folder)
        yield {
            "type": "rest",
            "uri": f"http://127.0.0.1:{catalog}",
            "warehouse": f"s3://{_BUCKET}/",
            "rest.sigv4-enabled": "true",
            "rest.signing-name": "s3tables",
            "rest.signing-region": REGION,
            "rest.access-key-id": KEY_ID,
            "rest.secret-access-key": SECRET,
            "s3.endpoint": f"http://127.0.0.1:{ports['s3']}",
            "s3.access-key-id": KEY_ID,
            "s3.secret-access-key": SECRET,
            "s3.path-style-access": "true",
            "client.access-key-id": KEY_ID,
            "client.secret-access-key": SECRET,
            "client.region": REGION,
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        }
    finally:
        server.terminate()
        server.wait(30)


def has_started(folder: Path) -> bool:
    """Whether all parts of the server are up, which its log says last."""
    return "All enabled components are running" in (folder / "log").read_text(errors="replace")
