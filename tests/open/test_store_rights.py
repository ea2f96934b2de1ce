"""The rights of the documentation are enough for S3 and Glue, and an error names a missing one and what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.catalog.lease import Lease, LeaseTimes
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.errors import ArcticError, CatalogError
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance import expiry
from arctic_runtime.spark.maintenance.compaction import compact_table
from tests.documented_rights import read_policy
from tests.lakes import SCHEMA, ClientLake, begin, publish, write_on
from tests.open.glue_catalog import ENVIRONMENT
from tests.open.guarded_moto import GuardedMoto, run_guarded_moto
from tests.open.iam_rules import Policy
from tests.open.moto_server import KEY_ID, REGION, SECRET
from tests.open.parked_runs import keep_landed_rows
from tests.spark.maintenance.test_forget import forgetting
from tests.spark.warehouse import Warehouse
from tests.thresholds import STEADY

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

BUCKET, PREFIX = "lake", "shop"
EVENTS = "id int, amount int, lsn bigint"
PAGE = "stores.md"
DAY_SECONDS = 86_400


def read_rights(does: str) -> Policy:
    """Reads the documented policies for the files and for the tables of a user, as one."""
    store, glue = (read_policy(PAGE, f"A user who {does} {what}") for what in ("files in S3", "tables in Glue"))
    return Policy({**store, "Statement": store["Statement"] + glue["Statement"]})


WRITER = read_rights("writes")
READER = read_rights("reads")
WRITER_OF_ALL_SCHEMAS = Policy(json.loads(json.dumps(WRITER.document).replace("/dwd", "/*")))
ONLY_FOR_LARGE_FILES = {"s3:AbortMultipartUpload"}


@dataclass(frozen=True)
class Lake:
    """A catalog in Glue whose tables lie in S3, and the user of tests with rights that a test gives."""

    moto: GuardedMoto
    warehouse: Warehouse
    used_to_create: frozenset[str]
    """Actions that the user needed when it created the schema and the first table."""

    @property
    def profile(self) -> Profile:
        return self.warehouse.reader.profile

    def keep(self, name: str) -> Model:
        return keep_landed_rows(self.warehouse, name)

    def land(self, *rows: tuple[int, int, int]) -> None:
        self.warehouse.append_v2("landed", rows, EVENTS)


@pytest.fixture(scope="module")
def lake(spark_settings: dict[str, str]) -> Iterator[Lake]:
    os.environ.update(ENVIRONMENT)
    settings = {**spark_settings, JARS_SETTING: "postgresql,aws", "spark.hadoop.fs.defaultFS": "file:///"}
    with run_guarded_moto() as moto:
        moto.server.build_client("s3").create_bucket(Bucket=BUCKET)
        properties = {
            "type": "glue",
            "warehouse": f"s3://{BUCKET}/{PREFIX}",
            "glue.endpoint": moto.server.endpoint,
            "glue.region": REGION,
            "glue.access-key-id": KEY_ID,
            "glue.secret-access-key": SECRET,
            **moto.server.file_properties,
        }
        environment = SparkEnvironment(Profile("lake", properties, settings=settings, thresholds=STEADY))
        warehouse = Warehouse(environment, CatalogReader(environment.profile), environment.new_session(), SCHEMA)
        moto.give(WRITER)
        warehouse.reader.create_namespace(SCHEMA)
        warehouse.append_v2("landed", [(1, 10, 1), (2, 20, 2)], EVENTS)
        yield Lake(moto, warehouse, frozenset(moto.list_used()))
        moto.give(None)
        environment.stop_spark()


def test_a_user_who_writes_needs_exactly_the_documented_rights(lake: Lake, tmp_path: Path) -> None:
    lake.moto.give(WRITER)
    warehouse, model = lake.warehouse, lake.keep("orders")
    seen = warehouse.model("seen", "select id, amount from {orders}", primary_key="id")
    reader = CatalogReader(lake.profile)
    reader.create_namespace(SCHEMA)
    assert [warehouse.run(each).mode for each in (model, seen)] == ["create", "create"]
    lake.land((2, 25, 3), (3, 5, 4))
    assert [warehouse.run(each).mode for each in (model, seen)] == ["incremental", "incremental"]
    compact_table(warehouse.session_of(model), "full")
    expiry.find_orphan_files(warehouse.session_of(model), DAY_SECONDS, remove=True)
    assert forgetting(warehouse, model, (model, seen), keys=("1",)).run_forget().is_clean
    assert warehouse.rows(seen) == [(2, 25), (3, 5)]
    assert [warehouse.broken(each) for each in (model, seen)] == [[], []]
    table = ServiceTable(SCHEMA, reader)
    table.ensure()
    assert Lease(table, LeaseTimes(60.0, 20.0, 3)).take_lease() is None
    publish_build(lake, tmp_path)
    assert reader.list_namespaces() == [SCHEMA]
    assert {"a", "b"} <= set(reader.list_tables(SCHEMA))
    assert set(WRITER.actions) - lake.used_to_create - lake.moto.list_used() == ONLY_FOR_LARGE_FILES


def publish_build(lake: Lake, folder: Path) -> None:
    """Publishes a build of two tables, in several steps, since Glue has no transactions."""
    branch = begin(ClientLake(replace(lake.profile, settings={})), folder)
    write_on(branch, "a", 1, ClientLake.format_version)
    write_on(branch, "b", 2, ClientLake.format_version)
    publish(branch)


def test_a_user_who_reads_needs_exactly_the_documented_rights(lake: Lake) -> None:
    lake.moto.give(WRITER)
    warehouse, model = lake.warehouse, lake.keep("read_by_others")
    warehouse.run(model)
    lake.moto.give(READER)
    reader = CatalogReader(lake.profile)
    assert reader.list_namespaces() == [SCHEMA]
    assert "read_by_others" in reader.list_tables(SCHEMA)
    rows = warehouse.rows(model)
    assert len(rows) >= 2
    assert reader.load_table(SCHEMA, "read_by_others").scan().to_arrow().num_rows == len(rows)
    assert warehouse.run(model).mode == "unchanged"
    assert lake.moto.list_used() == set(READER.actions)
    with pytest.raises(CatalogError, match="A right is missing: s3:PutObject"):
        warehouse.run(lake.keep("not_allowed"))


Use = Callable[[Lake, Path, int], Any]


def run_model(lake: Lake, _folder: Path, number: int) -> None:
    lake.warehouse.run(lake.keep("changed"))


def create_model(lake: Lake, _folder: Path, number: int) -> None:
    lake.warehouse.run(lake.keep(f"created_{number}"))


def forget_rows(lake: Lake, _folder: Path, number: int) -> None:
    model = lake.keep("changed")
    forgetting(lake.warehouse, model, (model,), keys=(str(number),)).run_forget()


USES: Mapping[str, Use] = {
    "s3:ListBucket": lambda lake, _folder, _number: CatalogReader(lake.profile).list_namespaces(),
    "s3:GetObject": run_model,
    "s3:PutObject": run_model,
    "s3:DeleteObject": forget_rows,
    "glue:GetDatabases": lambda lake, _folder, _number: CatalogReader(lake.profile).list_namespaces(),
    "glue:GetDatabase": lambda lake, _folder, _number: CatalogReader(lake.profile).list_relations(SCHEMA),
    "glue:CreateDatabase": lambda lake, _folder, _number: CatalogReader(lake.profile).create_namespace("ods"),
    "glue:UpdateDatabase": lambda lake, folder, _number: publish_build(lake, folder),
    "glue:GetTable": run_model,
    "glue:GetTables": lambda lake, _folder, _number: CatalogReader(lake.profile).list_relations(SCHEMA),
    "glue:CreateTable": create_model,
    "glue:UpdateTable": run_model,
    "glue:DeleteTable": forget_rows,
}
"""An action, and something that needs it."""


def test_each_documented_action_is_taken_away_once() -> None:
    assert set(USES) == set(WRITER.actions) - ONLY_FOR_LARGE_FILES


@pytest.mark.parametrize("action", USES)
def test_a_missing_right_is_named_and_nothing_is_lost(lake: Lake, tmp_path: Path, action: str) -> None:
    number = 100 + list(USES).index(action)
    lake.moto.give(WRITER)
    model = lake.keep("changed")
    lake.warehouse.run(model)
    lake.land((number, 1, number))
    if USES[action] is forget_rows:
        lake.warehouse.run(model)
    lake.moto.give((WRITER_OF_ALL_SCHEMAS if action == "glue:CreateDatabase" else WRITER).without(action))
    with pytest.raises(ArcticError) as refused:
        USES[action](lake, tmp_path, number)
    text = str(refused.value)
    assert f"allow {action} in the policy of this user" in text, text
    assert "docs/stores.md" in text
    assert "\tat " not in text
    assert SECRET not in text
    lake.moto.give(WRITER_OF_ALL_SCHEMAS)
    USES[action](lake, tmp_path / "again", number)
    lake.warehouse.run(model)
    if action == "glue:CreateDatabase":
        lake.moto.server.build_client("glue").delete_database(Name="ods")
    kept = [row for row in lake.warehouse.rows(model) if row[0] == number]
    assert kept == ([] if USES[action] is forget_rows else [(number, 1, number)])
    assert lake.warehouse.broken(model) == []


def test_what_deletes_files_refuses_to_miss_clones_in_schemas_that_the_user_may_not_read(lake: Lake) -> None:
    lake.moto.give(WRITER)
    model = lake.keep("near_clones")
    lake.warehouse.run(model)
    glue = lake.moto.server.build_client("glue")
    glue.create_database(DatabaseInput={"Name": "others"})
    try:
        with pytest.raises(CatalogError, match=r"A right is missing: glue:GetDatabase on .*database/others"):
            forgetting(lake.warehouse, model, (model,), keys=("1",)).run_forget()
        with pytest.raises(CatalogError, match=r"A right is missing: glue:GetDatabase on .*database/others"):
            expiry.find_orphan_files(lake.warehouse.session_of(model), DAY_SECONDS, remove=True)
    finally:
        glue.delete_database(Name="others")


def test_orphans_that_may_not_be_deleted_are_an_error(lake: Lake) -> None:
    lake.moto.give(WRITER)
    model = lake.keep("with_orphans")
    lake.warehouse.run(model)
    key = f"{PREFIX}/{SCHEMA}.db/with_orphans__changes/data/old.parquet"
    lake.moto.server.build_client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"x")
    lake.moto.server.age_objects(BUCKET, f"{PREFIX}/", days=3)
    lake.moto.give(WRITER.without("s3:DeleteObject"))
    with pytest.raises(ArcticError, match="s3:DeleteObject"):
        expiry.find_orphan_files(lake.warehouse.session_of(model), DAY_SECONDS, remove=True)
    lake.moto.give(WRITER)
    assert key in lake.moto.server.list_keys(BUCKET)
    expiry.find_orphan_files(lake.warehouse.session_of(model), DAY_SECONDS, remove=True)
    assert key not in lake.moto.server.list_keys(BUCKET)
