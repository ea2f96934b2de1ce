"""Models that need more than their catalog has: refused by what the kind declares, and by what a server states."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.artifacts.resources import NodeConfig
from dbt_common.exceptions import CompilationError

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.required_capabilities import check_declared_needs, check_needs
from arctic_runtime.catalog_kinds.capabilities import Capabilities
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.profile import Profile
from arctic_runtime.refresh_planner import RefreshPlanner
from dbt.adapters.arctic.materialize.maintain import check_manifest
from tests.rest_catalog import serve

GLUE = Profile("lake", {"type": "glue", "warehouse": "s3://lake/wh"})
HIVE = Profile("lake", {"type": "hive", "uri": "thrift://me:hush@metastore:9083"})
NESSIE = Profile("lake", {"type": "nessie", "uri": "http://nessie:19120/api/v2", "warehouse": "s3://lake/wh"})
HADOOP = Profile("lake", {"type": "hadoop", "warehouse": "hdfs://name/wh"})
REST = Profile("lake", {"type": "rest", "uri": "http://127.0.0.1:9"})


def a_model(**config: Any) -> Model:
    return Model(
        TableName("lake", "dwd", "m"), "select 1 as id", read_configuration({"primary_key": "id", **config}, "m")
    )


@contextmanager
def a_reader(folder: Path, **lacks: bool) -> Iterator[CatalogReader]:
    """A reader of a small REST catalog, which may lack something."""
    with serve(folder, **lacks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{server.server_address[1]}"
        yield CatalogReader(Profile("lake", {"type": "rest", "uri": uri, "warehouse": str(folder)}))
        server.shutdown()


@pytest.mark.parametrize("profile", [GLUE, HIVE])
def test_without_views_a_table_merged_on_write_is_kept_and_one_merged_on_read_is_refused(profile: Profile) -> None:
    check_declared_needs(profile, a_model())
    with pytest.raises(ConfigError, match=r"lake\.dwd\.m: `merge: on_read` needs views") as refused:
        check_declared_needs(profile, a_model(merge="on_read"))
    assert "catalog lake (" in str(refused.value.where)
    assert "hush" not in str(refused.value)
    history = {"history": "scd2", "input": "changes", "sequence_by": "at"}
    with pytest.raises(ConfigError, match="`current_view` needs views"):
        check_declared_needs(profile, a_model(current_view=True, **history))


@pytest.mark.parametrize("profile", [NESSIE, HADOOP])
def test_a_catalog_that_only_spark_opens_is_refused_with_those_that_work(profile: Profile) -> None:
    for refuse in (check_declared_needs, lambda profile, model: check_needs(CatalogReader(profile), model)):
        with pytest.raises(ConfigError, match="arctic models need a catalog that is read without Spark") as refused:
            refuse(profile, a_model())
        assert "`jdbc` (on PostgreSQL), `rest`, `glue` or `hive`" in str(refused.value.fix)


def test_of_a_server_nothing_is_refused_before_it_is_asked() -> None:
    check_declared_needs(REST, a_model(merge="on_read"))


def test_a_server_states_whether_it_has_views_before_a_run_does_anything(tmp_path: Path) -> None:
    with a_reader(tmp_path) as reader:
        check_needs(reader, a_model(merge="on_read"))
        assert reader.capabilities == Capabilities(views=True, table_transactions=True)
    with a_reader(tmp_path, has_views=False) as reader:
        assert reader.capabilities == Capabilities(views=False, table_transactions=True)
        check_needs(reader, a_model())
        with pytest.raises(ConfigError, match="`merge: on_read` needs views"):
            RefreshPlanner(a_model(merge="on_read"), reader).plan_refresh()
        assert reader.list_namespaces() == []


def test_what_was_tried_is_known_to_the_reader_from_then_on(tmp_path: Path) -> None:
    with a_reader(tmp_path) as reader:
        reader.learn_capabilities(Capabilities(branches=False, views=False))
        assert reader.capabilities == Capabilities(branches=False, views=True, table_transactions=True)
        with pytest.raises(ConfigError, match="arctic models need table branches") as refused:
            check_needs(reader, a_model())
        assert "Nessie versions the whole catalog" in str(refused.value.fix)


def test_a_project_is_refused_when_it_is_parsed_by_the_file_of_the_model() -> None:
    config = {"materialized": "arctic", "primary_key": "id", "merge": "on_read", "enabled": True}
    node = SimpleNamespace(
        resource_type="model",
        unique_id="model.shop.m",
        original_file_path="models/m.sql",
        database="lake",
        schema="dwd",
        alias="m",
        config=NodeConfig.from_dict(config),
        to_dict=lambda omit_none: {"unique_id": "model.shop.m", "config": config, "config_call_dict": config},
    )
    with pytest.raises(CompilationError, match=r"models/m\.sql: lake\.dwd\.m: `merge: on_read` needs views"):
        check_manifest([node], (), GLUE)
