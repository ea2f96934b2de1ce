"""Kinds of catalogs: what each needs, how pyiceberg and Spark open it, and what is asked of it without Spark."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog_kinds.registry import CATALOG_KINDS, CUSTOM, get_catalog_kind, select_catalog_kind
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.service.telemetry.lineage.observed import name_by_catalog

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "configuration.md"
JAVA_ONLY = {"io-impl": "org.example.IO", "clients": "8", "cache-enabled": "true", "table-default.format-version": "2"}
SHARED = {"s3.region": "eu-west-1"}
STORE_IO = {
    "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    "s3.connect-timeout": "2",
    "s3.request-timeout": "20",
}
LOCAL_IO = {"py-io-impl": "arctic_runtime.catalog.storage.checked_files.CheckedFileIO"}


@dataclass(frozen=True)
class Case:
    """Properties of a catalog, without one of which that are `required` it is refused, and what follows from them."""

    properties: Mapping[str, str]
    required: tuple[str, ...]
    pyiceberg: Mapping[str, str] | None
    lineage: str
    lists_views: bool = False
    is_database: bool = False
    for_spark: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()


REST = {"type": "rest", "uri": "https://me:hush@catalog:8181/api/", "warehouse": "s3://lake/wh"}
SQLITE = {"type": "jdbc", "uri": "jdbc:sqlite:/wh/catalog.db?mode=rw", "warehouse": "/wh"}
POSTGRES = {"type": "jdbc", "uri": "jdbc:postgresql://db/cat", "warehouse": "s3a://lake/wh", "jdbc.user": "me"}
HIVE = {"type": "hive", "uri": "thrift://metastore:9083", "warehouse": "file:///wh"}
GLUE = {"type": "glue", "warehouse": "s3://lake/wh"}
HADOOP = {"type": "hadoop", "warehouse": "hdfs://name:8020/wh"}
NESSIE = {"type": "nessie", "uri": "http://nessie:19120/api/v2", "warehouse": "s3://lake/wh"}
V1 = {"jdbc.schema-version": "V1"}
CREATED = {"type": "sql", "init_catalog_tables": "true", "schema_version": "v1"}
SQL = {"type": "sql", "init_catalog_tables": "false"}

CASES = {
    "rest": Case(REST, ("uri",), {**REST, **STORE_IO}, "https://catalog:8181/api", lists_views=True),
    "jdbc": Case(
        SQLITE,
        ("uri", "warehouse"),
        {**SQL, "uri": "sqlite:////wh/catalog.db?timeout=60", "warehouse": "/wh", **LOCAL_IO},
        "file:/wh",
        lists_views=True,
        is_database=True,
        for_spark=V1,
    ),
    "jdbc on PostgreSQL": Case(
        POSTGRES,
        ("uri", "warehouse"),
        {**CREATED, "uri": "postgresql+psycopg2://me@db/cat", "warehouse": "s3a://lake/wh", **STORE_IO},
        "s3://lake/wh",
        lists_views=True,
        is_database=True,
        for_spark=V1,
        jars=("postgresql",),
    ),
    "jdbc on another database": Case(
        {**SQLITE, "uri": "jdbc:mysql://db/cat"},
        ("uri", "warehouse"),
        None,
        "file:/wh",
        is_database=True,
        for_spark=V1,
    ),
    "hive": Case(HIVE, ("uri",), {**HIVE, **LOCAL_IO}, "hive://metastore:9083"),
    "glue": Case(GLUE, (), {**GLUE, **STORE_IO}, "s3://lake/wh"),
    "hadoop": Case(HADOOP, ("warehouse",), None, "hdfs://name:8020/wh"),
    "nessie": Case(NESSIE, ("uri", "warehouse"), None, "http://nessie:19120/api/v2"),
    "": Case({"catalog-impl": "org.example.Catalog", "warehouse": "s3://lake/wh"}, (), None, "s3://lake/wh"),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_every_kind_has_a_case() -> None:
    assert [*CATALOG_KINDS, ""] == list(dict.fromkeys(name.partition(" ")[0] for name in CASES))
    assert [kind.name for kind in CATALOG_KINDS.values()] == list(CATALOG_KINDS)


@every_case
def test_a_kind_is_selected_by_its_type_and_refused_without_a_key_that_it_needs(case: Case) -> None:
    kind = select_catalog_kind(case.properties)
    assert kind.name == case.properties.get("type", "")
    assert kind.required_keys == case.required
    assert Profile(catalog_properties=case.properties).catalog_kind is kind
    for key in case.required:
        for replacement in ({}, {key: ""}):
            with pytest.raises(ConfigError, match=f"A catalog of type {kind.name} needs '{key}'"):
                Profile(catalog_properties={**{k: v for k, v in case.properties.items() if k != key}, **replacement})


@every_case
def test_pyiceberg_gets_properties_that_it_knows(case: Case) -> None:
    profile = Profile(catalog_properties={**case.properties, **JAVA_ONLY, **SHARED})
    expected = None if case.pyiceberg is None else {**case.pyiceberg, **SHARED}
    assert profile.build_pyiceberg_properties() == expected


@every_case
def test_spark_gets_all_properties_and_they_win(case: Case) -> None:
    properties = {**case.properties, **JAVA_ONLY}
    profile = Profile(catalog="c", catalog_properties=properties)
    prefix = "spark.sql.catalog.c"
    expected = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.cache-enabled": "true",
        f"{prefix}.table-default.format-version": "2",
        f"{prefix}.table-default.commit.retry.num-retries": "20",
        **{f"{prefix}.{key}": value for key, value in case.for_spark.items()},
        **{f"{prefix}.{key}": value for key, value in properties.items()},
    }
    for settings in (profile.build_spark_settings(), profile.build_session_settings()):
        assert {key: value for key, value in settings.items() if key.startswith(prefix)} == expected


@every_case
def test_spark_is_started_with_the_jars_that_a_catalog_needs(case: Case) -> None:
    assert select_catalog_kind(case.properties).list_jar_groups(case.properties) == case.jars
    started = Profile(catalog_properties=case.properties, settings={JARS_SETTING: "kafka"})
    assert {"kafka", *case.jars} <= set(started.jar_groups)


@every_case
def test_lineage_names_a_kind_after_its_server_or_its_warehouse(case: Case) -> None:
    assert name_by_catalog(TableName("c", "ods", "orders"), case.properties).namespace == case.lineage


@every_case
def test_a_kind_tells_what_is_read_without_spark(case: Case) -> None:
    reader = CatalogReader(Profile(catalog_properties=case.properties))
    assert reader.is_supported is (case.pyiceberg is not None)
    assert reader.lists_views is case.lists_views
    assert reader.profile.catalog_kind.is_database is case.is_database


def test_a_catalog_that_a_server_knows_is_opened_by_spark_alone() -> None:
    profile = Profile(method="connect", url="sc://spark:15002")
    assert profile.catalog_kind is CUSTOM
    assert profile.build_pyiceberg_properties() is None
    assert name_by_catalog(TableName("c", "ods", "orders"), {}).namespace == "c"


@pytest.mark.parametrize(
    ("name", "message", "advice"),
    [("rset", "'rset'", "(did you mean 'rest'?)"), ("", "''", "choose one, or"), (None, "None", "choose one, or")],
)
def test_an_unknown_kind_is_refused_with_those_that_are_known(name: str | None, message: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=r"type is unknown") as refused:
        get_catalog_kind(name)
    assert f"expected: {', '.join(CATALOG_KINDS)}\n  found: {message}\n" in str(refused.value)
    assert advice in str(refused.value)


def test_no_other_code_chooses_by_names_of_kinds() -> None:
    """By a comparison, or as the key of a mapping: what differs between kinds is in their entries."""
    chosen = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for folder in ("arctic_runtime", "dbt/adapters/arctic")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for part in list_choices(node)
        if isinstance(part, ast.Constant) and part.value in CATALOG_KINDS
    ]
    assert chosen == []


def list_choices(node: ast.AST) -> list[ast.AST | None]:
    """The expressions by which a node chooses: those of a comparison or a pattern, and the keys of a mapping."""
    if isinstance(node, ast.Dict):
        return [*node.keys]
    return list(ast.walk(node)) if isinstance(node, ast.Compare | ast.MatchValue) else []


def test_the_docs_name_every_kind_and_whether_arctic_models_can_be_in_it() -> None:
    section = DOCS.read_text(encoding="utf-8").split("\n## Which catalogs\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (.*`.*?`.*?) \| (yes|no)\b.*? \| (yes|no|as the server has it)\b", section, re.MULTILINE)
    answers = {
        name: (models == "yes", views) for names, models, views in rows for name in re.findall(r"`(\w+)`", names)
    }
    assert answers == {
        name: (
            kind.build_pyiceberg_properties is not None and kind.capabilities.branches is not False,
            {True: "yes", False: "no", None: "as the server has it"}[kind.capabilities.views],
        )
        for name, kind in CATALOG_KINDS.items()
    }
