"""`arctic serve` as users start it: files are ingested, models follow, HTTP shows it, and it ends and starts again."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

from dbt.adapters.arctic import cli
from tests.adapter.served import Served

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
TESTED = CLEAN.replace("primary_key='id'", "primary_key='id', meta={'arctic': {'test_after_refresh': true}}")
MINUTELY = """
{{ config(materialized='table', meta={'arctic': {'schedule': '* * * * *'}}) }}
select count(*) as n from {{ ref('clean') }}
"""
TESTS = """
models:
  - name: clean
    columns:
      - {name: id, data_tests: [not_null]}
      - {name: city, data_tests: [{accepted_values: {arguments: {values: [A, B]}}}]}
"""
TOP = """
{{ config(materialized='arctic', primary_key=[]) }}
select max(n) as n from {{ ref('cities') }}
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


class Serving:
    """A project over files of events, and services for it that end with the test."""

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
    def serve(self, project: Any) -> Iterator[Callable[..., Served]]:
        begun: list[Served] = []

        def start(log_format: str = "text") -> Served:
            begun.append(Served(Path(project.project_root), Path(project.profiles_dir), log_format=log_format))
            return begun[-1]

        yield start
        for one in begun:
            one.kill()


@pytest.mark.slow
class TestServe(Serving):
    def test_rows_of_files_reach_the_last_layer_and_a_killed_service_continues(
        self, project: Any, landing: Path, serve: Callable[[], Served]
    ) -> None:
        feed(landing, 1, {1: "a", 2: "b"})
        first = serve()
        first.until(lambda: first.states() == dict.fromkeys(("orders", "clean", "cities"), "fresh"))
        first.kill()
        feed(landing, 2, {3: "a"})
        write_file(CLEAN.replace("upper(city)", "upper(city) || '!'"), project.project_root, "models", "clean.sql")
        second = serve()
        second.until(lambda: rows_of(project, "cities") == [("A!", 2), ("B!", 1)])
        assert second.get("service")["service"]["role"] == "leads"
        second.stop()
        assert cli.main(["verify", *second.where]) == 0


class TestSparkKilled(Serving):
    @pytest.mark.slow
    def test_an_idle_service_ends_if_its_java_is_killed_and_continues_when_started_again(
        self, project: Any, landing: Path, serve: Callable[[], Served]
    ) -> None:
        feed(landing, 1, {1: "a", 2: "b"})
        first = serve()
        first.until(lambda: first.states() == dict.fromkeys(("orders", "clean", "cities"), "fresh"))
        assert first.is_ready()
        first.kill_java()
        assert first.code() == 1
        assert not first.is_ready()
        assert "arctic serve: Spark is gone." in first.said()
        assert "signal 9 ended it" in first.said()
        feed(landing, 2, {3: "c"})
        second = serve()
        second.until(lambda: second.rows("cities") == 3)
        second.stop()


@pytest.mark.slow
class TestJsonLogs(Serving):
    def test_every_line_is_json_while_models_fail_java_is_killed_and_the_service_ends(
        self, project: Any, landing: Path, serve: Callable[..., Served]
    ) -> None:
        feed(landing, 1, {1: "a", 2: "b"})
        service = serve("json")
        service.until(lambda: service.states() == dict.fromkeys(("orders", "clean", "cities"), "fresh"))
        write_file(CLEAN.replace("upper(city)", "raise_error('no')"), project.project_root, "models", "clean.sql")
        service.until(lambda: service.states()["clean"] == "failed")
        service.stop()
        assert "SIGTERM: ends after the work under way" in [line["message"] for line in service.read_lines()]
        write_file(CLEAN, project.project_root, "models", "clean.sql")
        feed(landing, 2, {3: "c"})
        service = serve("json")
        service.until(lambda: service.rows("cities") == 3)
        service.kill_java()
        assert service.code() == 1
        assert [line for line in service.read_lines() if "Spark is gone." in line["message"]]


@pytest.mark.slow
class TestSourceAway(Serving):
    def test_all_layers_say_what_they_are_late_for_until_a_batch_of_the_source_has_succeeded(
        self, project: Any, landing: Path, serve: Callable[[], Served], capsys: pytest.CaptureFixture[str]
    ) -> None:
        names = ("orders", "clean", "cities")
        feed(landing, 1, {1: "a", 2: "b"})
        service = serve()
        service.until(lambda: service.states() == dict.fromkeys(names, "fresh"))
        away = landing.parent.rename(landing.parent.with_name("away"))
        service.until(lambda: service.states() == dict(zip(names, ("failed", "behind", "behind"), strict=True)))
        last = freshness_of(service, "cities")
        assert last["reason"].startswith("ingestion of source shop fails: ")
        assert last["source"] == "shop"
        assert service.errors()["ingest shop"]
        capsys.readouterr()
        assert cli.main(["status", "cities", "--json", *service.where]) == 0
        (status,) = json.loads(capsys.readouterr().out)
        assert status["freshness"]["reason"] == last["reason"]
        away.rename(landing.parent)
        feed(landing, 2, {3: "c"})
        service.until(lambda: service.states() == dict.fromkeys(names, "fresh") and service.rows("cities") == 3)
        assert service.errors() == {}
        assert freshness_of(service, "cities")["as_of"] > last["as_of"]
        (first, second) = [job for job in service.jobs() if job["kind"] == "ingest" and job["state"] == "done"]
        assert first["reason"].startswith("1 event from files ")
        assert (second["rows"], len(second["lines"])) == ({"insert": 2}, 1)
        service.stop()


def freshness_of(service: Served, name: str) -> Any:
    return next(table["freshness"] for table in service.get("tables")["tables"] if table["table"].endswith(f".{name}"))


@pytest.mark.slow
class TestBeside(Serving):
    """What others do to the project and its catalog while a service works."""

    def test_dbt_runs_and_edits_alongside_a_service(
        self, project: Any, landing: Path, serve: Callable[[], Served]
    ) -> None:
        feed(landing, 1, {1: "a", 2: "b"})
        one = serve()
        one.until(lambda: one.states() == dict.fromkeys(("orders", "clean", "cities"), "fresh"))
        for number in range(2, 6):
            feed(landing, number, {number + 1: "a", 1: f"c{number}"})
            run_dbt(["run", *(["--full-refresh"] if number % 2 else [])])
        write_file(TOP, project.project_root, "models", "top.sql")
        write_file(CLEAN.replace("upper(city)", "upper(city) || '!'"), project.project_root, "models", "clean.sql")
        one.until(lambda: "top" in one.states() and rows_of(project, "top") == [(4,)])
        Path(project.project_root, "models", "top.sql").unlink()
        one.until(lambda: "top" not in one.states())
        feed(landing, 6, {8: "a"})
        one.until(lambda: rows_of(project, "cities") == [("A!", 5), ("B!", 1), ("C5!", 1)])
        assert rows_of(project, "top") == [(4,)]
        one.stop()
        assert cli.main(["verify", *one.where]) == 0

    @pytest.mark.parametrize("away", ["moved", "locked"])
    def test_a_catalog_that_is_away_for_a_while_is_waited_for(
        self, project: Any, landing: Path, serve: Callable[[], Served], away: str
    ) -> None:
        one = serve()
        one.until(lambda: one.states().get("cities") == "fresh")
        before = dict(rows_of(project, "cities")).get("Q!", 0)
        number = 10 if away == "moved" else 11
        file: Path = project.adapter.profile.sqlite_file
        with moved_away(file) if away == "moved" else locked(file):
            feed(landing, number, {100 + number: "q"})
            time.sleep(5)
        write_file(CLEAN.replace("upper(city)", "upper(city) || '!'"), project.project_root, "models", "clean.sql")
        one.until(lambda: dict(rows_of(project, "cities")).get("Q!") == before + 1)
        one.stop()
        assert cli.main(["verify", *one.where]) == 0


@pytest.mark.slow
class TestByDbt(Serving):
    """A table that dbt runs each minute, and tests after refreshes."""

    @pytest.fixture(scope="class")
    def models(self, landing: Path) -> dict[str, str]:
        files = {"clean.sql": TESTED, "cities.sql": CITIES, "minutely.sql": MINUTELY, "tests.yml": TESTS}
        return {"sources.yml": SOURCES.replace("PATH", str(landing.parent)), **files}

    def test_scheduled_models_are_run_and_failing_tests_are_shown_until_they_pass(
        self, project: Any, landing: Path, serve: Callable[[], Served]
    ) -> None:
        feed(landing, 1, {1: "a", 2: "b"})
        one = serve()
        one.until(lambda: rows_of(project, "minutely") == [(2,)])
        part = f"tests of lake.{project.test_schema}.clean"
        one.until(lambda: any(job["kind"] == "test" and job["state"] == "done" for job in one.jobs()))
        assert one.errors() == {}
        feed(landing, 2, {3: "wrong"})
        one.until(lambda: "1 of 2 tests failed" in one.errors().get(part, ""))
        one.until(lambda: rows_of(project, "minutely") == [(3,)])
        assert rows_of(project, "cities") == [("A", 1), ("B", 1), ("WRONG", 1)]
        assert f"{part}: 1 of 2 tests failed" in one.said()
        feed(landing, 3, {3: "b"})
        one.until(lambda: part not in one.errors())
        one.stop()


@pytest.mark.slow
class TestFullDisk(Serving):
    @pytest.fixture(scope="class")
    def disk(self) -> Iterator[Path]:
        """A disk of its own, which only an administrator can mount."""
        folder = Path(tempfile.mkdtemp(prefix="disk-"))
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", folder], check=False).returncode != 0:
            missing = "A full disk is tried on one of its own, which could not be mounted."
            if os.environ.get("CI"):
                pytest.fail(missing)
            pytest.skip(missing)
        yield folder
        subprocess.run(["umount", "--lazy", folder], check=True)

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any], disk: Path) -> dict[str, Any]:
        return {**profile_target, "warehouse": str(disk / "warehouse")}

    def test_what_a_full_disk_keeps_from_being_written_is_written_later(
        self, project: Any, landing: Path, disk: Path, serve: Callable[[], Served]
    ) -> None:
        feed(landing, 1, {1: "a", 2: "b"})
        one = serve()
        one.until(lambda: one.states() == dict.fromkeys(("orders", "clean", "cities"), "fresh"))
        ballast = disk / "ballast"
        fill(ballast)
        feed(landing, 2, dict.fromkeys(range(3, 1000), "c"))
        one.until(lambda: "failed" in one.states().values() or "No space left" in one.said())
        ballast.unlink()
        one.until(lambda: one.rows("cities") == 3)
        one.until(lambda: one.states() == dict.fromkeys(("orders", "clean", "cities"), "fresh"))
        one.stop()
        code, output = one.verify()
        assert code == 0, output


def rows_of(project: Any, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table as pyiceberg reads them; none where there is no table."""
    reader = project.adapter.catalog_reader
    if name not in reader.list_relations(project.test_schema):
        return []
    table = reader.load_table(project.test_schema, name)
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


@contextmanager
def moved_away(file: Path) -> Iterator[None]:
    """A catalog whose file is somewhere else, and of which nothing is left where it was."""
    parts = [Path(f"{file}{end}") for end in ("", "-wal", "-shm") if Path(f"{file}{end}").exists()]
    for part in parts:
        part.rename(f"{part}.away")
    yield
    for part in parts:
        Path(f"{part}.away").replace(part)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """A catalog to which somebody else writes all the time."""
    with closing(sqlite3.connect(file, timeout=60)) as database:
        database.execute("begin exclusive")
        yield
        database.rollback()


def fill(file: Path) -> None:
    """Writes a file until the disk is full."""
    with file.open("wb", buffering=0) as opened, suppress(OSError):
        while True:
            opened.write(bytes(4096))
