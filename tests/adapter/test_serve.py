"""`arctic serve` as users start it: files are ingested, models follow, HTTP shows it, and it ends and starts again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import write_file

from dbt.adapters.arctic import cli

SOURCES = """
sources:
  - name: shop
    schema: "{{ target.schema }}"
    config: {meta: {arctic: {ingest: {connector: files, path: "PATH"}}}}
    tables:
      - name: orders
        columns: [{name: id, data_type: bigint}, {name: city, data_type: string}]
        config: {meta: {arctic: {primary_key: id}}}
"""
CLEAN = """
{{ config(materialized='arctic', primary_key='id') }}
select id, upper(city) as city from {{ source('shop', 'orders') }}
"""
CITIES = """
{{ config(materialized='arctic', primary_key='city') }}
select city, count(*) as n from {{ ref('clean') }} group by city
"""


def feed(folder: Path, number: int, rows: dict[int, str]) -> None:
    """A file of Debezium events, which appears at once."""
    events = [
        {"before": None, "after": {"id": key, "city": city}, "op": "u", "source": {"lsn": number}}
        for key, city in rows.items()
    ]
    hidden = folder / f".{number}"
    hidden.write_text("\n".join(map(json.dumps, events)))
    hidden.rename(folder / f"{number}.json")


@pytest.mark.slow
class TestServe:
    @pytest.fixture(scope="class")
    def landing(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("landing") / "orders"
        folder.mkdir()
        return folder

    @pytest.fixture(scope="class")
    def models(self, landing: Path) -> dict[str, str]:
        return {
            "sources.yml": SOURCES.replace("PATH", str(landing.parent)),
            "clean.sql": CLEAN,
            "cities.sql": CITIES,
        }

    @pytest.fixture
    def serve(self, project: Any) -> Iterator[Callable[[], Served]]:
        begun: list[Served] = []

        def start() -> Served:
            begun.append(Served(Path(project.project_root), Path(project.profiles_dir)))
            return begun[-1]

        yield start
        for one in begun:
            one.kill()

    def test_rows_of_files_reach_the_last_layer_and_a_killed_service_goes_on(
        self, project: Any, landing: Path, serve: Callable[[], Served]
    ) -> None:
        feed(landing, 1, {1: "a", 2: "b"})
        first = serve()
        first.until(lambda: {of["table"].split(".")[-1]: of["state"] for of in first.get("tables")["tables"]} == {
            "orders": "fresh", "clean": "fresh", "cities": "fresh",
        })  # fmt: skip
        first.kill()
        feed(landing, 2, {3: "a"})
        write_file(CLEAN.replace("upper(city)", "upper(city) || '!'"), project.project_root, "models", "clean.sql")
        second = serve()
        second.until(lambda: rows_of(project, "cities") == [("A!", 2), ("B!", 1)])
        assert second.get("service")["service"]["role"] == "leads"
        second.stop()
        assert cli.main(["verify", *second.where]) == 0


class Served:
    """A service in a process of its own."""

    def __init__(self, project: Path, profiles: Path) -> None:
        self.where = ["--project-dir", str(project), "--profiles-dir", str(profiles)]
        command = [sys.executable, "-m", "dbt.adapters.arctic.cli", "serve", "--port", "0", *self.where]
        self._log = (project / "serve.log").open("w+")
        self._process = subprocess.Popen(command, stderr=self._log, stdout=subprocess.DEVNULL)

    def said(self) -> str:
        return Path(self._log.name).read_text()

    def get(self, what: str) -> Any:
        marker = "shows the warehouse at "
        if marker not in self.said():
            return {"tables": []}
        url = self.said().split(marker)[1].split()[0]
        with urllib.request.urlopen(f"{url}/api/{what}", timeout=10) as answer:
            return json.load(answer)

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 240
        while not holds():
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.5)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0, self.said()

    def kill(self) -> None:
        """Ends it and its Java, as a machine that stops."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)


def rows_of(project: Any, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table as pyiceberg reads them."""
    reader = project.adapter.catalog_reader
    table = reader.load_table(project.test_schema, name)
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
