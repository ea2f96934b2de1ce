"""Warehouses in an object store: what holds in a folder holds there too."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CatalogError
from arctic_runtime.profile import Profile, place_warehouse
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance import expiry
from sample_project.loader import FIRST_DAY
from sample_project.loader.landing import append
from tests import java
from tests.open.moto_server import SECRET, MotoServer
from tests.spark.maintenance.test_forget import filled, parts, shop
from tests.spark.warehouse import Warehouse
from tests.thresholds import STEADY

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_project"
DAY_SECONDS = 86_400
MOST_SECONDS = 10.0


def place(moto: MotoServer, bucket: str, folder: Path, **given: Any) -> Profile:
    """Profile of an embedded warehouse in a bucket."""
    return Profile.for_embedded(place_warehouse(f"s3://{bucket}/wh", folder, moto.file_properties), **given)


class Project:
    """A copy of the sample project whose warehouse is in a bucket; every command is a process of its own."""

    def __init__(self, folder: Path, moto: MotoServer, bucket: str, settings: dict[str, str]) -> None:
        self.folder = folder / "shop"
        shutil.copytree(SAMPLE, self.folder, ignore=shutil.ignore_patterns("warehouse", "target", "logs", ".arctic"))
        target = {
            "type": "arctic",
            "schema": "dwd",
            "warehouse": f"s3://{bucket}/wh",
            "catalog_config": moto.file_properties,
            "threads": 2,
            "server_side_parameters": {key: settings[key] for key in settings if key not in java.INTERPRETED},
        }
        profile = {"nyc_flights": {"target": "dev", "outputs": {"dev": target}}}
        (self.folder / "profiles.yml").write_text(yaml.safe_dump(profile))
        self.reader = CatalogReader(place(moto, bucket, self.folder))

    def land(self, day: int) -> None:
        append(self.reader.catalog, FIRST_DAY + timedelta(days=day))

    def run(self, *command: str, failpoint: str = "") -> tuple[int, str]:
        """Runs a command; returns its exit code and all that it said."""
        done = subprocess.run(
            [sys.executable, "-m", *command, "--project-dir", str(self.folder), "--profiles-dir", str(self.folder)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "ARCTIC_FAILPOINTS": failpoint},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert SECRET not in done.stdout
        return done.returncode, done.stdout

    def do(self, *command: str) -> str:
        code, said = self.run(*command)
        assert code == 0, said
        return said

    def modes(self) -> set[str]:
        results: Any = json.loads((self.folder / "target" / "run_results.json").read_text())["results"]
        return {str(result["adapter_response"].get("mode")) for result in results}


def test_the_sample_is_exact_on_s3_for_days_of_changes_and_after_a_kill(
    tmp_path: Path, moto: MotoServer, bucket: str, spark_settings: dict[str, str]
) -> None:
    project = Project(tmp_path, moto, bucket, spark_settings)
    project.land(0)
    project.do("dbt.cli.main", "build", "--resource-type", "seed", "--resource-type", "model")
    assert "create" in project.modes()
    project.land(1)
    code, said = project.run("dbt.cli.main", "run", failpoint="commit.publish=kill-after@2")
    assert code == -signal.SIGKILL, said
    project.do("dbt.cli.main", "run")
    project.land(2)
    project.do("dbt.cli.main", "run")
    project.do("dbt.adapters.arctic.command_line", "verify")
    project.do("dbt.cli.main", "run")
    assert project.modes() == {"unchanged"}
    assert any(key.startswith("wh/dwd/dwd_flights") for key in moto.list_keys(bucket, "wh/"))
    assert not list(project.folder.rglob("*.parquet"))
    assert "write: a table was created and dropped in s3://" in project.do("dbt.cli.main", "debug")


@pytest.fixture
def lake(moto: MotoServer, bucket: str, tmp_path: Path, spark_settings: dict[str, str]) -> Iterator[Warehouse]:
    """A namespace in a bucket of the test's own, in the Spark that all tests of this folder share."""
    environment = SparkEnvironment(place(moto, bucket, tmp_path, settings=spark_settings, thresholds=STEADY))
    session = environment.new_session()
    reader = CatalogReader(environment.profile)
    reader.create_namespace("shop")
    yield Warehouse(environment, reader, session, "shop")
    environment.stop_spark()


def test_orphans_on_s3_are_old_files_that_no_snapshot_of_their_own_table_has(
    lake: Warehouse, moto: MotoServer, bucket: str
) -> None:
    model = lake.model("m", "select id, v from {s}", primary_key="id", merge="on_read")
    for number in range(3):
        lake.load("s", [(1, number)], "id int, v int")
        lake.run(model)
    current = lake.reader.get_view_file("shop", "m")
    assert current is not None
    s3 = moto.build_client("s3")
    for name in ("old", "young"):
        s3.put_object(Bucket=bucket, Key=f"wh/shop/m__changes/data/{name}.parquet", Body=b"x")
    moto.age_objects(bucket, "wh/", days=3)
    s3.put_object(Bucket=bucket, Key="wh/shop/m__changes/data/young.parquet", Body=b"x")
    before = moto.list_keys(bucket, "wh/")
    planned = expiry.find_orphan_files(lake.session_of(model), DAY_SECONDS, remove=False)
    changes = f"s3://{bucket}/wh/shop/m__changes/data/old.parquet"
    assert planned[str(model.table.changes)] == [changes]
    assert current not in planned[str(model.table)] != []
    assert moto.list_keys(bucket, "wh/") == before
    assert expiry.find_orphan_files(lake.session_of(model), DAY_SECONDS, remove=True) == planned
    gone = {key for paths in planned.values() for key in paths}
    assert {f"s3://{bucket}/{key}" for key in before} - {
        f"s3://{bucket}/{key}" for key in moto.list_keys(bucket, "wh/")
    } == gone
    assert lake.rows(model) == [(1, 2)]
    assert lake.broken(model) == []


def read_values(moto: MotoServer, bucket: str, *tables: str) -> set[Any]:
    """All values in all data files of tables, also those that no snapshot has and those inside of structs."""
    values: set[Any] = set()
    s3 = moto.build_client("s3")
    for key in (key for table in tables for key in moto.list_keys(bucket, f"wh/shop/{table}/")):
        if key.endswith(".parquet"):
            body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
            for column in pq.read_table(io.BytesIO(body)).flatten().columns:
                values |= set(column.to_pylist())
    return values


def test_forgotten_values_are_in_no_object_of_the_bucket(lake: Warehouse, moto: MotoServer, bucket: str) -> None:
    made = shop(lake)
    filled(made)
    lake.run(made.sums)
    secrets = {"SECRET3", "SECRET3b", "name3"}
    assert secrets <= read_values(moto, bucket, *parts(made.customers, made.named))
    certificate = made.forget(keys=("3",))
    assert certificate.is_clean, certificate
    assert not secrets & read_values(moto, bucket, *parts(*made.models))
    for model in made.models:
        assert lake.broken(model) == []


def test_a_store_without_a_listener_is_named_within_ten_seconds(tmp_path: Path, moto: MotoServer) -> None:
    check_is_named(tmp_path, moto, "http://127.0.0.1:9")


def test_a_store_that_accepts_and_says_nothing_is_named_within_ten_seconds(tmp_path: Path, moto: MotoServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        check_is_named(tmp_path, moto, f"http://127.0.0.1:{silent.getsockname()[1]}")


def check_is_named(folder: Path, moto: MotoServer, endpoint: str) -> None:
    """Checks that Spark does not start, and that nothing waits, for a store that does not answer."""
    properties = {**moto.file_properties, "s3.endpoint": endpoint}
    profile = Profile.for_embedded(place_warehouse("s3://quiet/wh", folder, properties))
    CatalogReader(profile)
    for ask in (CatalogReader(profile).list_namespaces, SparkEnvironment(profile).new_session):
        began = time.monotonic()
        with pytest.raises(CatalogError, match="does not answer") as refused:
            ask()
        assert time.monotonic() - began < MOST_SECONDS
        assert f"s3://quiet/wh at {endpoint}" in str(refused.value)
        assert SECRET not in str(refused.value)


def test_a_bucket_that_is_not_there_is_named(tmp_path: Path, moto: MotoServer) -> None:
    with pytest.raises(CatalogError, match="no such bucket") as refused:
        CatalogReader(place(moto, "no-such-bucket", tmp_path)).list_namespaces()
    assert f"s3://no-such-bucket/wh at {moto.endpoint}" in str(refused.value)


def test_a_second_catalog_is_refused_in_a_warehouse_that_has_one(tmp_path: Path, moto: MotoServer, bucket: str) -> None:
    first = CatalogReader(place(moto, bucket, tmp_path / "one"))
    first.create_namespace("shop")
    with pytest.raises(CatalogError, match="belongs to another catalog") as refused:
        CatalogReader(place(moto, bucket, tmp_path / "two")).list_namespaces()
    assert str(tmp_path / "two") in str(refused.value)
    assert CatalogReader(place(moto, bucket, tmp_path / "one")).list_namespaces() == ["shop"]


@pytest.mark.parametrize("content", [b"", b'{"cat', b"[]", b"{}"])
def test_a_mark_of_the_catalog_that_is_cut_off_is_an_error(
    tmp_path: Path, moto: MotoServer, bucket: str, content: bytes
) -> None:
    """A network that cuts off answers may leave nothing of it; that is not a folder without an owner."""
    CatalogReader(place(moto, bucket, tmp_path)).create_namespace("shop")
    key = "wh/arctic-catalog.json"
    moto.build_client("s3").put_object(Bucket=bucket, Key=key, Body=content)
    with pytest.raises(CatalogError, match="cut it off"):
        CatalogReader(place(moto, bucket, tmp_path)).list_namespaces()
    assert moto.build_client("s3").get_object(Bucket=bucket, Key=key)["Body"].read() == content


def test_credentials_region_and_endpoint_of_the_environment_are_enough(
    tmp_path: Path, moto: MotoServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    profile = Profile.for_embedded(place_warehouse(f"s3://{bucket}/wh", tmp_path, {}))
    assert SECRET not in str(profile.catalog_properties)
    CatalogReader(profile).create_namespace("shop")
    assert CatalogReader(profile).list_namespaces() == ["shop"]
