"""Branches of catalogs of others: Hive and Glue change one table at a time, Iceberg's REST servlet several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import CommitConflict
from arctic_runtime.profile import Profile
from tests.lakes import SCHEMA, ClientLake, begin, check_builds, list_builds, publish, read_branch, scope_of, write_on
from tests.open.catalog_servers import CATALOGS


@pytest.fixture(scope="module", params=["glue", "hive", "iceberg_rest"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientLake]:
    with CATALOGS[request.param].run(tmp_path_factory.mktemp(request.param)) as properties:
        yield ClientLake(Profile("lake", properties))


@pytest.fixture(autouse=True)
def _empty(lake: ClientLake) -> None:
    clear(lake)


def clear(lake: ClientLake) -> None:
    for name in lake.read():
        lake.write(name, None)


def list_records(lake: ClientLake) -> list[str]:
    return [key for key in lake.reader.load_namespace_properties(SCHEMA) if key.startswith("arctic.")]


def change(branch: CatalogBranch, **contents: int | None) -> None:
    for name, content in contents.items():
        write_on(branch, name, content, ClientLake.format_version)


def test_tables_are_published_one_after_another(lake: ClientLake, tmp_path: Path) -> None:
    for number, name in enumerate("abc"):
        lake.write(name, number)
    with lake.reader.catalog.load_table((SCHEMA, "a")).transaction() as transaction:
        transaction.set_properties({"only_before": "x"})
    branch = begin(lake, tmp_path)
    change(branch, a=10, b=None, d=13)
    assert lake.read() == {"a": 0, "b": 1, "c": 2}
    assert publish(branch) is False
    assert lake.read() == {"a": 10, "c": 2, "d": 13}
    assert len(lake.reader.load_table(SCHEMA, "a").metadata.snapshots) == 1
    assert list_records(lake) == []
    lake.write("a", 11)
    assert lake.read()["a"] == 11


@pytest.mark.parametrize("name", ["a", "d"])
def test_a_conflict_publishes_nothing(lake: ClientLake, tmp_path: Path, name: str) -> None:
    lake.write("a", 0)
    lake.write("b", 0)
    branch = begin(lake, tmp_path)
    change(branch, a=1, b=1, d=1)
    lake.write(name, 5)
    before = lake.read()
    with pytest.raises(CommitConflict, match="Nothing of this build"):
        publish(branch)
    assert lake.read() == before
    assert list_records(lake) == []


@pytest.mark.parametrize("place", range(8))
def test_a_build_that_died_is_completed_by_the_next(lake: ClientLake, tmp_path: Path, place: int) -> None:
    for name in ("a", "b", "c"):
        lake.write(name, 0)
    branch = begin(lake, tmp_path)
    change(branch, a=1, b=2, c=None, d=3)
    old, new = lake.read(), read_branch(branch)
    count = [0]

    def die(name: str, action: Callable[[], Any]) -> Any:
        if not name.startswith("build."):
            return action()
        count[0] += 1
        if count[0] > place:
            raise Died
        return action()

    try:
        with set_failpoint(die):
            publish(branch)
    except Died:
        pass
    seen = lake.read()
    later = CatalogBranch(lake.profile, tmp_path / "elsewhere" / "1.db")
    completed = later.complete_publications(scope_of(lake))
    assert lake.read() == new or (seen == old and not completed)
    assert list_records(lake) == []


class Died(BaseException):
    """The process is no more."""


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(list_builds(ClientLake.names))
def test_random_builds(lake: ClientLake, tmp_path: Path, builds: list[Any]) -> None:
    clear(lake)
    check_builds(lake, tmp_path, builds)
