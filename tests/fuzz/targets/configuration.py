"""Configuration that people write: profiles, models, sources, keys of the service, arguments of operations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dbt_common.dataclass_schema import ValidationError
from hypothesis import strategies as st

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.connectors import connect, describe_connection, with_jars
from arctic_runtime.ingest.source import DeclaredTable, read_source
from arctic_runtime.model.names import TableName
from arctic_runtime.operations.registry import OPERATIONS, get_operation
from arctic_runtime.plan.config.configuration import KEYS
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.config.foreign_config import take_foreign_settings
from arctic_runtime.profile import Profile
from arctic_runtime.service.settings import read_http, read_settings
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.materialize.served_keys import check_served
from dbt.adapters.arctic.profile_keys import PROFILE_KEYS
from tests.fuzz.inputs import HOSTILE_TEXT, JSON, mutate_value, read_corpus
from tests.fuzz.target import Target, expect_typed_errors

PROFILE_FOLDER = Path("/nowhere")
PROFILE = Profile.for_embedded("/nowhere")
SOURCE_KEYS = (
    "path",
    "servers",
    "format",
    "password_env",
    "include",
    "schema_registry",
    "properties",
    "topics",
    "user",
)
TABLE_KEYS = ("primary_key", "partition_by", "source_table", "schema_changes", "retention", "nodes", "columns")


class _Config(SimpleNamespace):
    """The configuration of a node in dbt's manifest, as far as it is read."""

    def get(self, key: str) -> Any:
        return getattr(self, key, None)


def check_model(raw: Any) -> str:
    """A model's configuration is read or refused, and so are the settings of other adapters in it."""
    config = raw if isinstance(raw, Mapping) else {"primary_key": raw}
    with expect_typed_errors():
        take_foreign_settings(config)
    with expect_typed_errors() as outcome:
        read_configuration(config, "model m", ("materialized",), may_lack_key="primary_key" not in config)
    return outcome.word


def check_profile(raw: Any) -> str:
    """A target of profiles.yml is read or refused; one that is read has settings for Spark and pyiceberg."""
    target = dict(raw) if isinstance(raw, dict) else {"schema": raw}
    target.pop("type", None)
    target.pop("threads", None)
    with expect_typed_errors() as outcome:
        try:
            translated = ArcticCredentials.translate_aliases(target)
            ArcticCredentials.validate(translated)
            credentials = ArcticCredentials.from_dict(translated)
        except ValidationError:
            # dbt shows these as errors of the profile.
            return "refused by dbt"
        assert repr(credentials)
        assert dict(credentials.connection_info()) is not None
        profile = credentials.to_profile(PROFILE_FOLDER)
        profile.build_spark_settings()
        profile.build_session_settings()
        profile.build_pyiceberg_properties()
        read_http(read_settings(credentials.serve).http)
    return outcome.word


def check_source(entry: Any) -> str:
    """A source is read or refused, and its connector takes its settings or refuses them, before it asks a server."""
    ingest, meta, names = entry
    settings = ingest if isinstance(ingest, Mapping) else {"connector": ingest}
    with expect_typed_errors() as outcome:
        tables = [
            DeclaredTable(name, name, "ods", "lake", meta if isinstance(meta, Mapping) else {}, ((name, "bigint"),))
            for name in names
        ]
        source = read_source("shop", settings, tables)
        assert describe_connection(source)
        assert with_jars(PROFILE, [source])
        source.list_included_tables([f"public.{name}" for name in names])
        for table in source.tables:
            with expect_typed_errors():
                table.to_model(table.choose_key(("id",)))
        connect(source, CatalogReader(PROFILE), _refuse_spark)
    return outcome.word


def _refuse_spark() -> Any:
    raise AssertionError("Spark was asked")


def check_served_keys(meta: Any) -> str:
    with expect_typed_errors() as outcome:
        nodes = [
            SimpleNamespace(
                unique_id="model.shop.m",
                resource_type="model",
                original_file_path="models/m.sql",
                config=_Config(materialized=kind, meta=meta if isinstance(meta, dict) else {"arctic": meta}),
            )
            for kind in ("arctic", "table")
        ]
        check_served(nodes)
    return outcome.word


def check_arguments(entry: Any) -> str:
    """Arguments of an operation, from a command, a macro or HTTP, are read or refused."""
    name, values = (entry.get("operation"), entry.get("values")) if isinstance(entry, Mapping) else (entry, {})
    with expect_typed_errors() as outcome:
        operation = get_operation(name if isinstance(name, str) else "lookup")
        operation.read_values(values if isinstance(values, Mapping) else {"key": values})
    return outcome.word


def check_table_name(parts: list[str]) -> str:
    with expect_typed_errors() as outcome:
        str(TableName(*parts)).encode()
    return outcome.word


MODELS = Target("models", mutate_value(read_corpus("models"), tuple(KEYS)), check_model)
PROFILES = Target("profiles", mutate_value(read_corpus("profiles"), tuple(PROFILE_KEYS)), check_profile)
SOURCES = Target(
    "sources",
    st.tuples(
        st.one_of(st.sampled_from(read_corpus("sources")), mutate_value(read_corpus("sources"), SOURCE_KEYS)),
        st.one_of(
            st.sampled_from(({"primary_key": ["id"]}, {"primary_key": None}, {})),
            mutate_value(({"primary_key": ["id"]}, {"nodes": 4, "schema_changes": "safe"}, {}), TABLE_KEYS),
        ),
        st.lists(st.one_of(st.sampled_from(("orders", "items")), HOSTILE_TEXT), max_size=3),
    ),
    check_source,
)
SERVED = Target("served keys", st.one_of(mutate_value(read_corpus("served_keys")), JSON), check_served_keys)
ARGUMENTS = Target(
    "arguments",
    mutate_value(read_corpus("arguments"), [argument.name for one in OPERATIONS for argument in one.arguments]),
    check_arguments,
)
NAMES = Target("table names", st.lists(st.one_of(HOSTILE_TEXT, st.text()), min_size=3, max_size=3), check_table_name)
