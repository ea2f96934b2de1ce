"""The image, its project with a real database, and a network that is the loopback alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from sample_project.servers import PostgreSQLServer
from tests.image.container import Conditions, Container
from tests.image.image import NAME, ROOT, has_image

SHOP = ROOT / "deploy" / "docker" / "shop"
TOKEN = "a-token-of-thirty-two-letters-and-more"


@pytest.fixture
def postgresql() -> Iterator[PostgreSQLServer]:
    """A database with the table of the compose file, which nobody has read yet."""
    assert has_image(NAME), "make test-image builds it"
    server = PostgreSQLServer()
    server.sql((ROOT / "deploy" / "docker" / "postgres" / "shop.sql").read_text())
    yield server
    server.remove()


@pytest.fixture
def conditions(tmp_path: Path, postgresql: PostgreSQLServer) -> Conditions:
    """The project of the compose file, with the port of this database, and an empty warehouse for anybody."""
    project, warehouse = tmp_path / "shop", tmp_path / "warehouse"
    shutil.copytree(SHOP, project)
    sources = yaml.safe_load((project / "models" / "sources.yml").read_text())
    sources["sources"][0]["config"]["meta"]["arctic"]["ingest"]["port"] = postgresql.port
    (project / "models" / "sources.yml").write_text(yaml.safe_dump(sources))
    profile = (project / "profiles.yml").read_text()
    # A container of 2 GiB has Python and Java's own memory beside the heap.
    (project / "profiles.yml").write_text(profile.replace("spark.driver.memory: 2g", "spark.driver.memory: 1g"))
    warehouse.mkdir()
    warehouse.chmod(0o777)
    return Conditions(project, warehouse, environment={"ARCTIC_TOKEN": TOKEN, "SHOP_PASSWORD": "any"})


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Container]]:
    """Starts containers, and kills those that still run when the test ends."""
    started: list[Container] = []

    def start(conditions: Conditions, *arguments: str) -> Container:
        started.append(Container(conditions, *arguments, log=tmp_path / f"container-{len(started)}.log"))
        return started[-1]

    yield start
    for container in started:
        if container.process.poll() is None:
            container.kill()
