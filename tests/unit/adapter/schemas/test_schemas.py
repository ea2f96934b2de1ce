"""The schemas of `arctic schema` accept what the readers accept, and refuse keys that these refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache, reduce
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.connectors import CONNECTORS, find_connector
from arctic_runtime.ingest.formats.registry import FORMATS
from arctic_runtime.ingest.source import INGEST_SETTINGS, TABLE_SETTINGS, DeclaredTable, read_source
from arctic_runtime.plan.config.configuration import CONFIGURATION, KEYS
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.plan.config.maintenance_settings import CLONE_TTL_SCHEMA, read_clone_ttl
from arctic_runtime.plan.config.value_reader import ValueReader
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.settings import KEYS as KEYS_OF_SERVE
from arctic_runtime.service.settings import UPKEEP_SETTINGS, read_budget, read_http
from arctic_runtime.service.telemetry.configured import TELEMETRY_SETTINGS
from arctic_runtime.spark.engine.warm_server import KEEP_ALIVE_SCHEMA, read_keep_alive
from dbt.adapters.arctic.commands.schema import SCHEMAS
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.materialize.foreign_config import list_dbt_keys, list_known_keys
from dbt.adapters.arctic.profile_keys import PROFILE_KEYS
from dbt.adapters.arctic.schemas.models import DBT_KEYS
from tests.fuzz.inputs import mutate_value, read_corpus
from tests.fuzz.targets.configuration import check_profile, check_source
from tests.unit.project.test_docs import ROOT, blocks, configurations

DOCUMENTS = {name: build() for name, build in SCHEMAS.items()}
EXAMPLES = [
    *(pytest.param(block.text, id=block.page) for block in blocks("yaml", "yml")),
    *(
        pytest.param(file.read_text(), id=str(file.relative_to(ROOT)))
        for file in sorted((ROOT / "sample_project").rglob("*.yml"))
    ),
]

# A schema can't say these: which values fit each other, or how long a parsed value is.
WIDER = {"partition_by", "target_file_bytes", "node_bytes", "retention", "merge_columns", "trigger", "time_unit"}
TEXTS = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="{/\\"), max_size=8),
    st.sampled_from(
        [
            *("auto", "off", "any", "5d", "0d", "2 w", "30s", "0s", "64 MiB", "1GiB", "days(at)", "bucket(8, id)"),
            *("`a b`", "years(c", "public.*", "1.5s", "+08:00", "Asia/Tokyo", "a, b", " ", "", "sum", "identity(a)"),
        ]
    ),
)
PLAIN = st.one_of(TEXTS, st.booleans(), st.integers(-3, 2**21), st.sampled_from([0.25, 1.5, -0.5]))
EDGES = (
    *(None, "", " ", "0", "0s", "600", "off", "auto", 0, 1, 600, -1, 0.0, 1.0, 1.5, True, False),
    *([], {}, [""], [None], ["a"], {"a": 1}, {"a": None}, "08:00-18:00", ["08:00-18:00", ""], "64 MiB"),
)
"""Values at the edges of types, some of which Python takes for others: 0 for `false`, `false` or "" for none."""


@cache
def validator(document: str, part: str = "") -> Draft202012Validator:
    schema = DOCUMENTS[document]
    return Draft202012Validator({**schema["$defs"][part], "$defs": schema["$defs"]} if part else schema)


def values_for(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema may accept, beside others: its constants, and mappings with its keys."""
    found = list(walk(schema))
    constants = [value for part in found for value in (*part.get("enum", ()), *part.get("examples", ()))]
    names = [name for part in found for name in part.get("properties", ())] or ["a"]
    leaves = st.one_of(PLAIN, st.sampled_from(constants)) if constants else PLAIN
    mappings = st.dictionaries(st.one_of(st.sampled_from([*names, "a"]), TEXTS), leaves, max_size=3)
    return st.one_of(leaves, st.lists(leaves, max_size=3), mappings)


def walk(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for part in schema.values():
            yield from walk(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from walk(part)


def is_read(read: Callable[[], Any]) -> bool:
    try:
        read()
    except ConfigError:
        return False
    return True


READERS: dict[str, ValueReader[Any]] = {
    **{key.name: key.read for key in CONFIGURATION},
    **{f"ingest {key.name}": key.read for key in INGEST_SETTINGS},
    **{f"table {key.name}": key.read for key in TABLE_SETTINGS if key.name in ("schema_changes", "merge")},
    **{f"{name} {key}": option.read for name, entry in FORMATS.items() for key, option in entry.options.items()},
}


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40)
@given(data=st.data())
def test_a_schema_accepts_the_values_that_are_read(name: str, data: st.DataObject) -> None:
    reader = READERS[name]
    value = data.draw(values_for(reader.schema))
    accepted = Draft202012Validator(reader.schema).is_valid(value)
    was_read = is_read(lambda: reader("key", value))
    if was_read:
        assert accepted
    if accepted and name.rsplit(maxsplit=1)[-1] not in WIDER:
        assert was_read


@pytest.mark.parametrize("name", READERS)
def test_a_schema_accepts_the_values_at_edges_that_are_read(name: str) -> None:
    reader = READERS[name]
    read = [value for value in EDGES if is_read(lambda value=value: reader("key", value))]
    assert [value for value in read if not Draft202012Validator(reader.schema).is_valid(value)] == []


@pytest.mark.parametrize(
    "path",
    [
        *((key,) for key in PROFILE_KEYS),
        *(("serve", key) for key in KEYS_OF_SERVE),
        *(("serve", "upkeep", setting.name) for setting in UPKEEP_SETTINGS),
        *(("serve", "http", part.name) for part in fields(HttpSettings)),
        *(("telemetry", setting.name) for setting in TELEMETRY_SETTINGS),
    ],
    ids=".".join,
)
def test_a_target_with_a_value_at_an_edge_is_accepted_if_it_is_read(path: tuple[str, ...]) -> None:
    targets = [
        {"type": "arctic", "schema": "s", "warehouse": "w", **reduce(lambda value, key: {key: value}, path[::-1], edge)}
        for edge in EDGES
    ]
    read = [target for target in targets if check_profile(target) == "accepted"]
    assert [target for target in read if not validator("profile", "target").is_valid(target)] == []


@pytest.mark.parametrize(("read", "schema"), [(read_clone_ttl, CLONE_TTL_SCHEMA), (read_keep_alive, KEEP_ALIVE_SCHEMA)])
def test_a_time_at_an_edge_is_accepted_if_it_is_read(read: Callable[[Any], Any], schema: Mapping[str, Any]) -> None:
    values = [value for value in EDGES if is_read(lambda value=value: read(value))]
    assert [value for value in values if not Draft202012Validator(schema).is_valid(value)] == []


@given(written=values_for(DOCUMENTS["profile"]["$defs"]["serve"]))
def test_settings_of_the_service_that_are_read_are_accepted(written: Any) -> None:
    serve = DOCUMENTS["profile"]["$defs"]["serve"]
    checks = Draft202012Validator({**serve, "$defs": DOCUMENTS["profile"]["$defs"]})
    if isinstance(written, dict):
        if is_read(lambda: read_http(written)):
            assert checks.is_valid({"http": written})
        if is_read(lambda: read_budget(written)):
            assert checks.is_valid({"upkeep": written})


@given(config=mutate_value(read_corpus("models"), tuple(KEYS)))
def test_a_configuration_that_is_read_is_accepted(config: Any) -> None:
    known = list_known_keys()
    if isinstance(config, dict) and is_read(lambda: read_configuration(config, "m", known, may_lack_key=True)):
        written = {key: value for key, value in config.items() if key in KEYS}
        assert validator("models", "config").is_valid(written)


@given(target=mutate_value(read_corpus("profiles"), tuple(PROFILE_KEYS)))
def test_a_target_whose_keys_are_refused_is_refused(target: Any) -> None:
    if isinstance(target, dict):
        unknown = {*map(str, target)} - {*PROFILE_KEYS, "type", "threads"}
        assert not unknown or not validator("profile", "target").is_valid({"type": "arctic", **target})


@pytest.mark.parametrize(
    "target", [target for target in read_corpus("profiles") if check_profile(target) == "accepted"]
)
def test_a_target_that_is_read_is_accepted(target: dict[str, Any]) -> None:
    assert list(validator("profile", "target").iter_errors({"type": "arctic", **target})) == []


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_accepted(text: str) -> None:
    document = yaml.safe_load(text)
    if not isinstance(document, dict):
        return
    kinds = {name for name in ("models", "sources") if name in document}
    if any(isinstance(part, dict) and "outputs" in part for part in document.values()):
        kinds.add("profile")
    for kind in kinds:
        assert list(validator(kind).iter_errors(document)) == []


def test_the_configurations_of_examples_in_sql_are_accepted() -> None:
    examples = [given for block in blocks("sql") for given in configurations(block.text)]
    assert len(examples) >= 6
    for example in json.loads(json.dumps(examples)):
        assert list(validator("models", "config").iter_errors(example)) == []


@pytest.mark.parametrize("key", [f"{key}s" for key in KEYS if f"{key}s" not in list_known_keys()])
def test_an_unknown_key_of_a_model_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="unknown key"):
        read_configuration({"primary_key": "a", key: "x"}, "m", list_known_keys())
    for schema_file in (
        {"models": [{"name": "m", "config": {key: "x"}}]},
        {"models": {"shop": {f"+{key}": "x"}}},
        {"models": {"shop": {"inner": {key: "x"}}}},
    ):
        assert not validator("models").is_valid(schema_file)


@pytest.mark.parametrize(
    ("models", "is_accepted"),
    [
        ({"shop": {"+materialized": "arctic", "+nodes": 3}}, False),
        ({"shop": {"+materialized": "arctic", "nodes": 3}}, False),
        ({"shop": {"+nodes": 4, "nodes": {"+nodes": 4}}}, True),
        ({"shop": {"+nodes": "{{ var('nodes') }}", "+retention": {"versions": "{{ var('age') }}"}}}, True),
        ({"shop": {"+retention": {"version": "5d"}}}, False),
        ({"shop": {"+meta": {"arctic": {"schedules": "30 6 * * *"}}}}, False),
        ({"shop": {"+materialized": "mine", "+own_key": 1}}, True),
        ({"shop": {"+materialized": "arctic", "+own_key": 1}}, False),
        ({"shop": None, "+own_key": {"a": 1}}, False),
        ([{"name": "m", "meta": {"arctic": {"test_after_refresh": True}}}], True),
        ([{"name": "m", "versions": [{"v": 1, "config": {"merg": "on_read"}}]}], False),
        ({"shop": {"+partition_by": {"field": "at", "data_type": "date"}, "+target_lag": "5 minutes"}}, True),
        ({"shop": {"+tblproperties": {"format-version": 2}}}, True),
        ({"shop": {"+tblproperties": {"write.data.path": "s3://b"}}}, False),
    ],
)
def test_models_of_a_project(models: Any, is_accepted: bool) -> None:
    assert validator("models").is_valid({"models": models}) == is_accepted


def source(ingest: Mapping[str, Any] | None, **table: Any) -> dict[str, Any]:
    meta = {} if ingest is None else {"config": {"meta": {"arctic": {"ingest": dict(ingest)}}}}
    return {"sources": [{"name": "s", **meta, "tables": [{"name": "t", "config": {"meta": {"arctic": table}}}]}]}


def find_source(ingest: Mapping[str, Any]) -> None:
    find_connector(read_source("s", ingest, [DeclaredTable("t", "t", "ods", "lake", {"primary_key": "a"}, ())]))


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda connector: connector.name)
def test_keys_of_a_connector_are_those_that_it_takes(connector: Any) -> None:
    needed = {"connector": connector.name, **dict.fromkeys(connector.required, "a")}
    find_source(needed)
    assert validator("sources").is_valid(source(needed))
    for key in connector.required:
        less = {name: value for name, value in needed.items() if name != key}
        assert not is_read(lambda less=less: find_source(less))
        assert not validator("sources").is_valid(source(less))
    for key in {key.name for other in CONNECTORS for key in other.settings} - {*needed}:
        known = validator("sources", f"ingest_{connector.name}").schema["properties"]
        assert is_unknown({**needed, key: []}, key) == (key not in known)


def is_unknown(ingest: Mapping[str, Any], key: str) -> bool:
    try:
        find_source(ingest)
    except ConfigError as error:
        return f"unknown key `{key}`" in str(error)
    return False


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda connector: connector.name)
def test_a_source_with_a_value_at_an_edge_is_accepted_if_it_is_read(connector: Any) -> None:
    needed = {"connector": connector.name, **dict.fromkeys(connector.required, "a")}
    written = [{**needed, key: edge} for key in connector.keys for edge in EDGES]
    read = [ingest for ingest in written if check_source((ingest, {"primary_key": ["id"]}, ("t",))) == "accepted"]
    assert read
    assert [ingest for ingest in read if not validator("sources").is_valid(source(ingest))] == []


@pytest.mark.parametrize("key", [setting.name for setting in TABLE_SETTINGS])
def test_a_table_with_a_value_at_an_edge_is_accepted_if_it_is_read(key: str) -> None:
    ingest = {"connector": "files", "path": "x"}

    def read_table(meta: Mapping[str, Any]) -> None:
        (table,) = read_source("s", ingest, [DeclaredTable("t", "t", "ods", "lake", meta, ())]).tables
        table.to_model(table.choose_key(("id",)))

    tables = [{"primary_key": "a", key: edge} for edge in EDGES]
    read = [table for table in tables if is_read(lambda table=table: read_table(table))]
    assert [table for table in read if not validator("sources").is_valid(source(ingest, **table))] == []


@pytest.mark.parametrize(
    ("written", "is_accepted"),
    [
        (source({"connector": "files", "path": "x"}, merge="on_write", primary_key=None), True),
        (source({"connector": "file", "path": "x"}), False),
        (source({"path": "x"}), False),
        (source({"connector": "files", "path": "x", "trigger_seconds": 1}), False),
        (source({"connector": "files", "path": "x", "format": {"rows": {"operation": "op"}}}), True),
        (source({"connector": "files", "path": "x", "format": {"rows": {"operations": {"deleted": "D"}}}}), False),
        (source({"connector": "kafka", "servers": "k:9092", "schema_registry": {"user": "a"}}), False),
        (source({"connector": "files", "path": "x"}, refresh="full"), False),
        (source(None, retention={"versions": "7d"}), True),
        (source(None, merge="on_read"), False),
        ({"sources": [{"name": "s", "meta": {"owner": "x"}}]}, True),
    ],
)
def test_sources(written: Any, is_accepted: bool) -> None:
    assert validator("sources").is_valid(written) == is_accepted


@pytest.mark.parametrize(
    ("target", "is_accepted"),
    [
        ({"warehouse": "w"}, True),
        ({}, False),
        ({"warehouse": "w", "schema": None}, False),
        ({"warehouse": "w", "warehous": "w"}, False),
        ({"warehouse": "w", "method": "conect"}, False),
        ({"warehouse": "w", "url": "sc://a"}, False),
        ({"method": "connect"}, False),
        ({"method": "connect", "url": "sc://a:1"}, True),
        ({"method": "connect", "url": "sc://a:1", "warehouse": "w"}, False),
        ({"method": "connect", "url": "local", "warehouse": "w"}, True),
        ({"warehouse": "w", "keep_alive": "15 m", "clone_ttl": False, "threads": "{{ env_var('N') | int }}"}, True),
        ({"warehouse": "w", "keep_alive": 15}, False),
        ({"warehouse": "w", "server_side_parameters": {"driver.memory": "2g"}}, False),
        ({"catalog_config": {"type": "rset"}}, False),
        ({"warehouse": "w", "serve": {"htpp": {}}}, False),
        ({"warehouse": "w", "serve": {"http": {"users": [{"name": "a"}]}}}, False),
        ({"warehouse": "w", "serve": {"upkeep": {"quiet_hours": "mon-fri 8:00-18:00"}}}, True),
    ],
)
def test_targets(target: Any, is_accepted: bool) -> None:
    written = {"shop": {"target": "dev", "outputs": {"dev": {"type": "arctic", "schema": "s", **target}}}}
    assert validator("profile").is_valid(written) == is_accepted


def test_targets_of_other_adapters_are_not_checked() -> None:
    assert validator("profile").is_valid({"config": {}, "shop": {"outputs": {"dev": {"type": "spark", "host": "a"}}}})


def test_the_keys_of_a_target_are_the_fields_of_the_credentials() -> None:
    assert {*PROFILE_KEYS} - {"catalog"} == {field.name for field in fields(ArcticCredentials)}


def test_all_keys_of_dbt_are_known() -> None:
    assert list_dbt_keys() <= {*DBT_KEYS}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_valid_and_explains_its_keys(name: str) -> None:
    Draft202012Validator.check_schema(DOCUMENTS[name])
    texts = [part["description"] for part in walk(DOCUMENTS[name]) if isinstance(part.get("description"), str)]
    assert len(texts) > 10
    assert [text for text in texts if "](" in text] == []


def test_the_command_loads_neither_dbt_nor_spark() -> None:
    print_loaded = (
        "import sys\nfrom dbt.adapters.arctic.command_line import main\n"
        "assert main(['schema', sys.argv[1]]) == 0\nprint(*sys.modules, file=sys.stderr)"
    )
    for name in SCHEMAS:
        done = subprocess.run(
            [sys.executable, "-c", print_loaded, name], capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert json.loads(done.stdout) == json.loads(json.dumps(DOCUMENTS[name]))
        loaded = {module for module in done.stderr.split() if not module.startswith("dbt.adapters.arctic")}
        assert loaded & {"pyspark", "py4j", "pyarrow", "pyiceberg", "dbt_common", "dbt.cli", "dbt.artifacts"} == set()
        assert [module for module in loaded if module.startswith("dbt.")] == ["dbt.adapters"]
