"""The recipe for AWS: its commands are typed, on servers that stand for S3, Glue and IAM, and the tables are exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.profile import JARS_SETTING, Profile
from sample_project.servers import PostgreSQLServer
from tests.documented_rights import read_policy
from tests.ingest.conftest import running
from tests.java import INTERPRETED
from tests.open.guarded_moto import GuardedMoto, run_guarded_moto
from tests.open.iam_rules import Policy
from tests.open.moto_server import KEY_ID, SECRET
from tests.recipe_aws import CHART, EXEC, HELM, NAMESPACE, read_blocks, read_values

ROOT = Path(__file__).parents[2]
COMMANDS = {"dbt": "dbt.cli.main", "arctic": "dbt.adapters.arctic.command_line"}
REGION, BUCKET, SCHEMAS = "eu-central-1", "lake", ("ods", "dws")

KEPT = ("Name", "Description", "TableType", "Parameters", "StorageDescriptor")

SOURCES = {
    "name": "shop",
    "schema": "ods",
    "tables": [{"name": "orders", "config": {"meta": {"arctic": {"merge": "on_write"}}}}],
}
ORDERS = """
{{ config(materialized='arctic', primary_key='id', refresh='incremental') }}
select id, city, amount from {{ source('shop', 'orders') }} where amount > 0
"""
SALES = """
{{ config(materialized='arctic', primary_key='city', refresh='incremental') }}
select city, count(*) as orders, sum(amount) as amount from {{ ref('dws_orders') }} group by city
"""

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Account:
    """The account in which the page's tables are, and the folder in which its commands are typed."""

    folder: Path
    environment: dict[str, str]
    moto: GuardedMoto

    def type(self, commands: str, fails: bool = False) -> str:
        """Types commands, without those that need a cluster; returns all that they print."""
        typed = commands.replace(EXEC, "")
        typed = "\n".join(line for line in typed.splitlines() if not line.startswith("kubectl "))
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", typed],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, typed + done.stdout
        return done.stdout

    def prepare(self) -> None:
        """Follows the first part of the page; the project has the rights of the role from then on."""
        (commands,) = read_blocks("1. Bucket and rights")
        write_policies(self.folder)
        self.type(commands)
        iam = self.build_client("iam")
        given = [iam.get_role_policy(RoleName="arctic", PolicyName=name)["PolicyDocument"] for name in ("s3", "glue")]
        statements = [statement for policy in given for statement in policy["Statement"]]
        self.moto.give(Policy({**given[0], "Statement": statements}))

    def build_client(self, service: str) -> Any:
        import boto3

        server = self.moto.server
        keys = {"aws_access_key_id": server.key_id, "aws_secret_access_key": SECRET}
        return boto3.client(service, endpoint_url=server.endpoint, region_name=REGION, **keys)

    @property
    def reader(self) -> CatalogReader:
        properties = {
            "type": "glue",
            "warehouse": f"s3://{BUCKET}/shop",
            "glue.endpoint": self.moto.server.endpoint,
            "glue.access-key-id": KEY_ID,
            "glue.secret-access-key": SECRET,
            **self.moto.server.file_properties,
            "client.region": REGION,
        }
        return CatalogReader(Profile("lake", properties))

    def read_table(self, schema: str, name: str) -> Rows:
        table = self.reader.load_table(schema, name)
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())

    def list_tables(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Lists what Glue keeps of each table, but for times and versions."""
        glue = self.build_client("glue")
        return {
            (schema, table["Name"]): {key: table[key] for key in KEPT if key in table}
            for schema in SCHEMAS
            for table in glue.get_tables(DatabaseName=schema)["TableList"]
        }

    def list_files(self) -> set[str]:
        return set(self.moto.server.list_keys(BUCKET))

    def delete_files(self, names: Iterable[str]) -> None:
        s3 = self.build_client("s3")
        for name in names:
            s3.delete_object(Bucket=BUCKET, Key=name)


@dataclass(frozen=True)
class Shop:
    """The project of the page and its database."""

    account: Account
    server: PostgreSQLServer

    def follow(self) -> None:
        """Brings changes of the database into all tables, and looks whether the tables are right."""
        self.account.type("arctic ingest shop --once && dbt run")
        self.check_tables()

    def check_tables(self) -> None:
        orders = self._query("select id, city, amount from orders where amount > 0")
        assert self.account.read_table("dws", "dws_orders") == orders
        assert self.read_sales() == self.compute_sales()

    def read_sales(self) -> Rows:
        return self.account.read_table("dws", "dws_sales")

    def compute_sales(self) -> Rows:
        return self._query("select city, count(*), sum(amount) from orders where amount > 0 group by city")

    def _query(self, statement: str) -> Rows:
        text = self.server.sql(f"select coalesce(json_agg(to_json(q)), '[]') from ({statement}) q")
        return sorted(tuple(row.values()) for row in json.loads(text))


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    """The account before the bucket is there; the pods have the role that the page makes, and `aws` is the owner's."""
    with run_guarded_moto() as moto:
        environment = {
            **os.environ,
            **moto.server.environment,
            **{variable["name"]: variable["value"] for variable in read_values()["env"]},
            "PATH": os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "ARCTIC_TOKEN": "x" * 32,
            "DBT_ARCTIC_STATE": str(tmp_path / "state"),
            "DBT_USE_COLORS": "false",
            "DO_NOT_TRACK": "1",
        }
        del environment["AWS_DEFAULT_REGION"]
        write_programs(tmp_path / "bin", moto)
        (tmp_path / "shop").mkdir()
        made = Account(tmp_path / "shop", environment, moto)
        made.prepare()
        yield made


def write_programs(folder: Path, moto: GuardedMoto) -> None:
    """Writes the programs that the page calls: those of this tree, and `aws` with the keys of the account's owner."""
    aws = Path(sys.executable).with_name("aws")
    programs = {name: f'exec "{sys.executable}" -W ignore -m {module} "$@"' for name, module in COMMANDS.items()}
    programs["aws"] = f'AWS_DEFAULT_REGION={REGION} AWS_ACCESS_KEY_ID={moto.server.key_id} exec "{aws}" "$@"'
    folder.mkdir()
    for name, command in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)


@pytest.fixture
def shop(account: Account, spark_settings: dict[str, str]) -> Iterator[Shop]:
    server = running(lambda: PostgreSQLServer("shop"))
    write_project(account.folder, server, spark_settings)
    yield Shop(account, server)
    account.type("arctic spark stop || true")
    server.remove()


def write_project(folder: Path, server: PostgreSQLServer, settings: dict[str, str]) -> None:
    """Writes the project with the profile that the chart makes of the page's values, but for a Spark of this size."""
    values, models = folder / "my-values.yaml", folder / "models"
    models.mkdir()
    values.write_text(yaml.safe_dump(read_values()))
    command = [HELM, "template", "shop", CHART, "--namespace", NAMESPACE, "--values", values]
    documents = list(yaml.safe_load_all(subprocess.check_output(command, text=True)))
    (config,) = (document for document in documents if document["kind"] == "ConfigMap")
    profile = yaml.safe_load(config["data"]["profiles.yml"])
    (target,) = profile["shop"]["outputs"].values()
    target |= {"keep_alive": "15m", "server_side_parameters": {**settings, **INTERPRETED, JARS_SETTING: "aws"}}
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
    (folder / "dbt_project.yml").write_text(yaml.safe_dump({"name": "shop", "version": "1.0.0", "profile": "shop"}))
    settings = {"connector": "postgresql", "host": "127.0.0.1", "port": server.port, "database": server.database}
    source = {**SOURCES, "config": {"meta": {"arctic": {"ingest": {**settings, "user": "postgres"}}}}}
    (models / "sources.yml").write_text(yaml.safe_dump({"sources": [source]}))
    (models / "dws_orders.sql").write_text(ORDERS)
    (models / "dws_sales.sql").write_text(SALES)


def write_policies(folder: Path) -> None:
    """Writes the policies of the page on stores, as the recipe says that they are changed."""
    store, glue = (read_policy("stores.md", f"A user who writes {what}") for what in ("files in S3", "tables in Glue"))
    for statement in glue["Statement"]:
        places = [place.replace("us-east-1", REGION) for place in statement["Resource"]]
        every = [place.replace("/dwd", f"/{schema}") for schema in SCHEMAS for place in places]
        statement["Resource"] = sorted(set(every))
    (trust,) = read_blocks("1. Bucket and rights", "json")
    for name, policy in (("s3", store), ("glue", glue), ("trust", json.loads(trust))):
        (folder / f"{name}.json").write_text(json.dumps(policy))


def test_a_lake_that_was_lost_is_restored_from_its_backup(account: Account, shop: Shop) -> None:
    """Files, a table and a whole schema are lost after changes that the backup does not have, and others stay."""
    shop.server.sql(
        "create table orders (id int primary key, city text, amount int)",
        "insert into orders values (1, 'Oslo', 10), (2, 'Bergen', 20), (3, 'Oslo', 30), (4, 'Bodø', 0)",
    )
    shop.follow()
    shop.server.sql("update orders set amount = 11 where id = 1", "delete from orders where id = 2")
    shop.follow()
    backup, versions = read_blocks("7. Backup")
    account.type(backup)
    kept, sales, files = account.list_tables(), shop.compute_sales(), account.list_files()
    take_back_a_mistake(shop, *versions.splitlines())
    lose_the_lake(account, files)
    later = account.list_files()
    restore, settle, expire = read_blocks("8. Restore")
    account.type(restore)
    assert account.list_tables() == kept
    assert account.list_files() == files | later
    assert shop.read_sales() == sales
    assert "ahead of" in account.type("arctic ingest shop --once", fails=True)
    account.type(settle)
    account.type("arctic verify && dbt run && arctic verify")
    shop.check_tables()
    shop.server.sql("insert into orders values (6, 'Oslo', 60)", "delete from orders where id = 1")
    shop.follow()
    results = json.loads((account.folder / "target" / "run_results.json").read_text())["results"]
    assert {result["adapter_response"]["mode"] for result in results} == {"incremental"}
    remove_orphans(account, {name for name in later if "/dws_sales" in name}, *expire.splitlines())
    shop.check_tables()


def take_back_a_mistake(shop: Shop, keep: str, go_back: str) -> None:
    """Goes back to a savepoint after a change, which the next run computes again."""
    before = shop.compute_sales()
    shop.account.type(keep)
    shop.server.sql("insert into orders values (5, 'Bodø', 50)", "update orders set city = 'Bodø' where id = 3")
    shop.follow()
    assert shop.read_sales() != before
    shop.account.type(go_back)
    assert shop.read_sales() == before
    shop.follow()


def lose_the_lake(account: Account, files: set[str]) -> None:
    """Deletes the files that the backup has, a schema and a table; what was written later stays."""
    glue = account.build_client("glue")
    account.delete_files(files)
    glue.delete_database(Name="ods")
    glue.delete_table(DatabaseName="dws", Name="dws_orders")
    account.type("arctic spark stop")
    account.type("arctic verify", fails=True)


def remove_orphans(account: Account, orphans: set[str], plan: str, remove: str) -> None:
    """Removes the files of a table that the restored catalog does not name, once they are old enough."""
    assert orphans
    account.type(remove)
    assert orphans <= account.list_files()
    account.moto.server.age_objects(BUCKET, "shop/", days=4)
    account.type(plan)
    assert orphans <= account.list_files()
    account.type(remove)
    assert not orphans & account.list_files()
    account.type("arctic verify")


def write_rows(account: Account, number: int) -> dict[tuple[str, str], Rows]:
    """Writes a number into a table of each schema; returns the rows that they have, by table."""
    for schema in SCHEMAS:
        account.reader.create_namespace(schema)
        catalog = account.reader.catalog
        if not catalog.table_exists((schema, "m")):
            catalog.create_table((schema, "m"), pa.schema([("n", pa.int32())]), properties={"comment": "'a' \\ \"b\""})
        catalog.load_table((schema, "m")).append(pa.table({"n": pa.array([number], pa.int32())}))
    return read_rows(account)


def read_rows(account: Account) -> dict[tuple[str, str], Rows]:
    return {(schema, "m"): account.read_table(schema, "m") for schema in SCHEMAS}


def test_a_restore_brings_all_files_and_tables_back_as_they_were(account: Account) -> None:
    """One schema is lost, and the table of the other one has changed."""
    rows = write_rows(account, 1)
    account.type(read_blocks("7. Backup")[0])
    tables, files = account.list_tables(), account.list_files()
    write_rows(account, 2)
    account.build_client("glue").delete_database(Name="ods")
    account.delete_files(account.list_files())
    account.type(read_blocks("8. Restore")[0])
    assert (account.list_tables(), account.list_files(), read_rows(account)) == (tables, files, rows)


@pytest.mark.parametrize("done", [2, 3])
def test_a_backup_that_is_cut_off_leaves_one_that_can_be_restored(account: Account, done: int) -> None:
    """A second backup ends before or after it has the tables; files of the first went in between, as by expiry."""
    backup = read_blocks("7. Backup")[0]
    first, old = write_rows(account, 1), account.list_files()
    account.type(backup)
    second = write_rows(account, 2)
    account.delete_files(name for name in old if name.endswith(".metadata.json"))
    lines = [line for line in backup.splitlines() if not line.startswith("kubectl ")]
    assert len(lines) == 4
    account.type("\n".join(lines[:done]))
    account.delete_files(account.list_files())
    account.type(read_blocks("8. Restore")[0])
    assert read_rows(account) == (first if done == 2 else second)
