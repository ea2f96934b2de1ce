"""The rights of the documentation are enough for a catalog in PostgreSQL, and an error names a missing one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from arctic_runtime.catalog.lease import Lease, LeaseTimes
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.errors import ArcticError, CatalogError
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.overwrite import restore_version
from sample_project.servers import PostgreSQLServer
from tests.documented_rights import PASSWORD, read_statements
from tests.lakes import SCHEMA, ClientLake, begin, publish, write_on
from tests.open.parked_runs import keep_landed_rows
from tests.spark.maintenance.test_forget import forgetting
from tests.spark.warehouse import Warehouse
from tests.thresholds import STEADY

EVENTS = "id int, amount int, lsn bigint"
PAGE = "stores.md"


@dataclass(frozen=True)
class Catalog:
    """A catalog whose tables the owner of the database has created, and whose users have the documented rights."""

    server: PostgreSQLServer
    folder: Path
    settings: dict[str, str]

    def build_profile(self, user: str) -> Profile:
        properties = {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://127.0.0.1:{self.server.port}/{self.server.database}",
            "jdbc.user": user,
            "jdbc.password": PASSWORD,
            "warehouse": str(self.folder),
        }
        return Profile("lake", properties, settings=self.settings, thresholds=STEADY)

    def open(self, user: str) -> Warehouse:
        environment = SparkEnvironment(self.build_profile(user))
        return Warehouse(environment, CatalogReader(environment.profile), environment.new_session(), SCHEMA)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQLServer]:
    server = PostgreSQLServer("lake", log_statement="ddl")
    yield server
    server.remove()


@pytest.fixture(scope="module")
def catalog(
    server: PostgreSQLServer, spark_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Catalog]:
    server.sql("revoke all on schema public from public", "revoke all on database lake from public")
    for title in ("the tables of the catalog", "a user who writes", "a user who reads"):
        server.sql(*read_statements(PAGE, f"PostgreSQL: {title}"))
    settings = {**spark_settings, JARS_SETTING: "postgresql,aws", "spark.hadoop.fs.defaultFS": "file:///"}
    catalog = Catalog(server, tmp_path_factory.mktemp("rights"), settings)
    CatalogReader(catalog.build_profile("arctic")).create_namespace(SCHEMA)
    yield catalog
    SparkEnvironment(catalog.build_profile("arctic")).stop_spark()


def test_a_user_who_writes_needs_the_documented_rights_alone(catalog: Catalog, tmp_path: Path) -> None:
    lake = catalog.open("arctic")
    model = keep_landed_rows(lake, "orders")
    seen = lake.model("seen", "select id, amount from {orders}", primary_key="id", merge="on_read")
    lake.append_v2("landed", [(1, 10, 1), (2, 20, 2)], EVENTS)
    assert [lake.run(each).mode for each in (model, seen)] == ["create", "create"]
    good = lake.head(model)
    lake.append_v2("landed", [(2, 25, 3), (3, 5, 4)], EVENTS)
    assert [lake.run(each).mode for each in (model, seen)] == ["incremental", "incremental"]
    restore_version(lake.session_of(model), good)
    compact_table(lake.session_of(model), "full")
    assert forgetting(lake, model, (model, seen), keys=("1",)).run_forget().is_clean
    lake.run(seen)
    assert lake.rows(seen) == [(2, 20)]
    assert [lake.broken(each) for each in (model, seen)] == [[], []]
    lease = Lease(ServiceTable(SCHEMA, lake.reader), LeaseTimes(60.0, 20.0, 3))
    ServiceTable(SCHEMA, lake.reader).ensure()
    assert lease.take_lease() is None
    assert lease.is_own()
    branch = begin(ClientLake(replace(lake.reader.profile, settings={})), tmp_path)
    write_on(branch, "a", 1, ClientLake.format_version)
    write_on(branch, "b", 2, ClientLake.format_version)
    publish(branch)
    assert {"a", "b"} <= set(lake.reader.list_tables(SCHEMA))
    lake.reader.create_namespace("passing")
    lake.reader.drop_namespace("passing")
    assert lake.reader.list_namespaces() == [SCHEMA]


def test_a_user_who_reads_needs_select_alone(catalog: Catalog) -> None:
    writer = catalog.open("arctic")
    model = keep_landed_rows(writer, "read_by_others")
    writer.append_v2("landed", [(9, 90, 9)], EVENTS)
    writer.run(model)
    lake = catalog.open("analyst")
    assert (9, 90, 9) in lake.rows(model)
    assert lake.reader.load_table(SCHEMA, "read_by_others").scan().to_arrow().num_rows == len(lake.rows(model))
    assert lake.run(model).mode == "unchanged"
    writer.append_v2("landed", [(9, 91, 10)], EVENTS)
    with pytest.raises(CatalogError, match=r"A right is missing: .* on iceberg_tables") as refused:
        lake.run(model)
    assert "`grant select, insert, update, delete on iceberg_tables to analyst`" in str(refused.value)


def test_no_user_creates_or_alters_a_table_of_the_catalog(catalog: Catalog) -> None:
    log = (catalog.server.folder / "log").read_text()
    statements = re.findall(r"(?:statement|execute [^:]*): *((?:create|alter) table .*)", log, re.IGNORECASE)
    assert [line.split()[2] for line in statements] == ["iceberg_tables", "iceberg_namespace_properties"]


RIGHTS = (
    *(("iceberg_tables", right) for right in ("select", "insert", "update", "delete")),
    *(("iceberg_namespace_properties", right) for right in ("select", "insert", "delete")),
    ("schema public", "usage"),
    ("database lake", "connect"),
)


@pytest.mark.parametrize(("place", "right"), RIGHTS)
def test_a_missing_right_is_named_with_its_statement(catalog: Catalog, place: str, right: str) -> None:
    """Each advice is followed until nothing is missing; Spark asks for some rights, this process for others."""
    number = RIGHTS.index((place, right))
    writer = catalog.open("arctic")
    writer.append_v2("landed", [(number, 1, 100 + number)], EVENTS)
    catalog.server.sql(f"revoke {right} on {place} from arctic")

    def use_all() -> None:
        lake = catalog.open("arctic")
        lake.reader.create_namespace(f"passing_{number}")
        lake.reader.drop_namespace(f"passing_{number}")
        made = keep_landed_rows(lake, f"kept_{number}")
        lake.run(made)
        forgetting(lake, made, (made,), keys=(str(number),)).run_forget()

    advice = follow_advice(use_all, catalog.server.sql)
    assert any(right in statement and place in statement for statement in advice), advice


def follow_advice(action: Callable[[], None], run: Callable[[str], str]) -> list[str]:
    """Runs the first statement of each error until nothing is missing; returns the statements."""
    tried: list[str] = []
    while True:
        try:
            action()
        except ArcticError as error:
            text = str(error)
            assert "A right is missing" in text, text
            assert "\tat " not in text, text
            assert PASSWORD not in text
            statement = re.search(r"`(grant [^`]+)`", text)
            assert statement is not None, text
            tried.append(statement[1].replace("the profile's user", "arctic"))
            assert tried.count(tried[-1]) == 1, text
            run(tried[-1])
        else:
            return tried


def test_tables_that_are_not_there_are_the_owners_to_create(catalog: Catalog) -> None:
    server = PostgreSQLServer("lake")
    try:
        server.sql(
            f"create role arctic login password '{PASSWORD}'",
            "revoke all on schema public from public",
            "grant usage on schema public to arctic",
        )
        other = replace(catalog, server=server)
        with pytest.raises(CatalogError, match="owner creates them first"):
            CatalogReader(other.build_profile("arctic")).list_namespaces()
        tables, namespaces = read_statements(PAGE, "PostgreSQL: the tables of the catalog")
        server.sql(tables.replace("    iceberg_type varchar(5),\n", ""), namespaces)
        server.sql("grant select on iceberg_tables, iceberg_namespace_properties to arctic")
        old = CatalogReader(other.build_profile("arctic"))
        with pytest.raises(CatalogError, match="iceberg_type") as refused:
            old.list_relations(SCHEMA)
        statement = re.search(r"`(alter table [^`]+)`", str(refused.value))
        assert statement is not None, refused.value
        server.sql(statement[1])
        assert CatalogReader(other.build_profile("arctic")).list_relations(SCHEMA) == {}
    finally:
        server.remove()
