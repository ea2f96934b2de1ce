"""A secret in each place where a secret can stand is in no text that people, logs or other systems get."""

from __future__ import annotations

import io
import json
import logging
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.ingest.connectors import connect, describe_connection
from arctic_runtime.ingest.source import DeclaredTable, IngestSource, read_source
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile, mask_text
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.settings import read_http, read_settings
from arctic_runtime.service.telemetry.lineage.observed import name_by_catalog
from arctic_runtime.service.telemetry.logs import JsonFormatter
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.java import jvm
from arctic_runtime.thresholds import SHIPPED
from dbt.adapters.arctic.credentials import ArcticCredentials

CANARY = "canary-4f8a1c"
"""The secret: no text of the program has it by chance."""

REST = {"type": "rest", "uri": "http://127.0.0.1:9", "warehouse": "s3://lake/wh"}

TARGETS: Mapping[str, dict[str, Any]] = {
    "token of a catalog": {"catalog_config": {**REST, "token": CANARY}},
    "credential of a catalog": {"catalog_config": {**REST, "credential": f"id:{CANARY}"}},
    "header of a catalog": {"catalog_config": {**REST, "header.Authorization": f"Bearer {CANARY}"}},
    "password in a URL": {"catalog_config": {**REST, "uri": f"http://me:{CANARY}@127.0.0.1:9/"}},
    "token in a query": {"catalog_config": {**REST, "uri": f"http://127.0.0.1:9/?access_token={CANARY}"}},
    "key of an object store": {"catalog_config": {**REST, "s3.secret-access-key": CANARY, "s3.access-key-id": "a"}},
    "session token of an object store": {"catalog_config": {**REST, "s3.session-token": CANARY}},
    "key of an account": {"catalog_config": {**REST, "adls.account-key": CANARY}},
    "connection string": {"catalog_config": {**REST, "adls.connection-string": f"AccountName=a;AccountKey={CANARY}"}},
    "password of a database": {
        "catalog_config": {
            "type": "jdbc",
            "uri": "jdbc:postgresql://127.0.0.1:9/cat",
            "warehouse": "/wh",
            "jdbc.user": "me",
            "jdbc.password": CANARY,
        }
    },
    "password in an address of a database": {
        "catalog_config": {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://127.0.0.1:9/cat?user=me&password={CANARY}",
            "warehouse": "/wh",
        }
    },
    "setting of Spark": {"catalog_config": REST, "server_side_parameters": {"spark.ssl.keyPassword": CANARY}},
    "setting of Hadoop": {"catalog_config": REST, "server_side_parameters": {"spark.hadoop.fs.s3a.secret.key": CANARY}},
    "option of Java": {
        "catalog_config": REST,
        "server_side_parameters": {"spark.driver.extraJavaOptions": f"-Djavax.net.ssl.trustStorePassword={CANARY}"},
    },
    "token of a server of Spark": {"method": "connect", "url": f"sc://127.0.0.1:9/;token={CANARY}"},
    "proxy of a server of Spark": {"method": "connect", "url": f"sc://127.0.0.1:9/;x-aws-proxy-auth={CANARY}"},
    "token of the service": {"catalog_config": REST, "serve": {"http": {"token": f"{CANARY}-and-long-enough"}}},
}
"""Places of a profile → a target of profiles.yml with the secret there."""


def build_credentials(target: Mapping[str, Any]) -> ArcticCredentials:
    return ArcticCredentials(database="lake", schema="dws", **target)


@pytest.fixture(params=TARGETS.values(), ids=list(TARGETS))
def credentials(request: pytest.FixtureRequest) -> ArcticCredentials:
    return build_credentials(request.param)


def format_log(error: BaseException | None, *values: Any) -> str:
    """A line of the log with values and an error with its traceback, as the service writes it."""
    details = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord("arctic", logging.DEBUG, "x.py", 1, "%s", (values,), details)
    return JsonFormatter([f"{CANARY}-and-long-enough"]).format(record)


# Profiles


def test_what_dbt_shows_of_a_target_has_no_secret(credentials: ArcticCredentials) -> None:
    """`connection_info` is what `dbt debug` prints, and what `target` and so the manifest can have."""
    shown = [dict(credentials.connection_info()), dict(credentials.connection_info(with_aliases=True))]
    assert CANARY not in json.dumps(shown, default=str)


def test_a_profile_in_a_text_has_no_secret(credentials: ArcticCredentials, tmp_path: Path) -> None:
    profile = credentials.to_profile(tmp_path)
    for text in (repr(profile), str(profile), f"{CatalogReader(profile)!r}", repr(HttpSettings())):
        assert CANARY not in text
    assert CANARY not in format_log(None, profile, {"profile": profile})


def test_lineage_names_no_secret(credentials: ArcticCredentials, tmp_path: Path) -> None:
    profile = credentials.to_profile(tmp_path)
    if profile.catalog_properties:
        assert CANARY not in repr(name_by_catalog(TableName("lake", "dws", "m"), profile.catalog_properties))


def test_settings_of_the_service_in_a_text_have_no_secret() -> None:
    written = build_credentials(TARGETS["token of the service"]).serve
    assert CANARY not in repr(read_settings(written))
    assert CANARY not in repr(read_http(read_settings(written).http))


UNREACHED = [name for name, target in TARGETS.items() if target.get("catalog_config", {}).get("type") == "rest"]


@pytest.mark.in_turn
@pytest.mark.parametrize("name", UNREACHED)
def test_a_catalog_that_does_not_answer_is_described_without_the_secret(name: str, tmp_path: Path) -> None:
    reader = CatalogReader(build_credentials(TARGETS[name]).to_profile(tmp_path))
    with pytest.raises(ArcticError) as raised:
        reader.list_namespaces()
    assert CANARY not in f"{raised.value} {raised.value.details}"
    assert CANARY not in format_log(raised.value)


def test_an_error_of_a_database_is_described_without_the_secret(tmp_path: Path) -> None:
    reader = CatalogReader(build_credentials(TARGETS["password of a database"]).to_profile(tmp_path))
    text = f"connection to postgresql://me:{CANARY}@db/cat failed: password={CANARY}"

    def fail() -> None:
        raise OperationalError("select 1", {}, Exception(text))

    with pytest.raises(ArcticError) as raised:
        reader.ask_catalog("list tables", fail)
    assert CANARY not in f"{raised.value} {raised.value.details}"


BROKEN: Mapping[str, dict[str, Any]] = {
    "unknown key": {"catalog_config": {**REST, "token": CANARY}, "warehouse": "x"},
    "catalog without an address": {"catalog_config": {"type": "rest", "token": CANARY}},
    "unknown kind of catalog": {"catalog_config": {**REST, "type": "rst", "token": CANARY}},
    "setting that is none of Spark": {"catalog_config": REST, "server_side_parameters": {"ssl.keyPassword": CANARY}},
    "url that nothing uses": {"catalog_config": REST, "url": f"sc://h/;token={CANARY}"},
    "url of another protocol": {"method": "connect", "url": f"http://me:{CANARY}@h/"},
    "warehouse that is no folder": {"warehouse": f"http://me:{CANARY}@h/wh"},
    "warehouse of a store with a password": {"warehouse": f"s3://me:{CANARY}@bucket/wh"},
    "token that is too short": {"catalog_config": REST, "serve": {"http": {"token": "canary-4f8a1c"}}},
    "secret that is a list": {"catalog_config": {**REST, "token": [CANARY]}},
    "settings of the service that are no mapping": {"catalog_config": REST, "serve": {"http": f"token={CANARY}"}},
}


@pytest.mark.parametrize("target", BROKEN.values(), ids=list(BROKEN))
def test_a_refused_target_is_described_without_the_secret(target: Mapping[str, Any], tmp_path: Path) -> None:
    from dbt_common.exceptions import DbtBaseException

    try:
        credentials = build_credentials(target)
        credentials.to_profile(tmp_path)
        read_http(read_settings(credentials.serve).http)
    except (DbtBaseException, ConfigError) as error:
        text = f"{error} {error!r}"
    else:
        text = repr(dict(credentials.connection_info()))
    assert CANARY not in text


# Sources

SOURCES: Mapping[str, dict[str, Any]] = {
    "password of PostgreSQL": {
        "connector": "postgresql",
        "host": "h",
        "database": "d",
        "user": "u",
        "password": CANARY,
        "properties": {"database.sslpassword": CANARY},
    },
    "password in the environment": {
        "connector": "mysql",
        "host": "h",
        "database": "d",
        "user": "u",
        "password_env": "ARCTIC_CANARY",
    },
    "password of Kafka": {"connector": "kafka", "servers": "h:1", "user": "u", "password": CANARY},
    "properties of Kafka": {
        "connector": "kafka",
        "servers": "h:1",
        "properties": {"sasl.jaas.config": f'x required password="{CANARY}";'},
    },
    "password of a schema registry": {
        "connector": "kafka",
        "servers": "h:1",
        "schema_registry": {"url": "http://127.0.0.1:9", "user": "u", "password": CANARY},
    },
    "keys of a store of files": {
        "connector": "files",
        "path": "s3://b/in",
        "format": "rows",
        "properties": {"s3.secret-access-key": CANARY},
    },
}


def build_source(settings: Mapping[str, Any]) -> IngestSource:
    return read_source(
        "shop", settings, [DeclaredTable("orders", "orders", "ods", "lake", {"primary_key": ["id"]}, ())]
    )


@pytest.mark.parametrize("settings", SOURCES.values(), ids=list(SOURCES))
def test_a_source_in_a_text_has_no_secret(settings: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCTIC_CANARY", CANARY)
    source = build_source(settings)
    texts = [repr(source), describe_connection(source), format_log(None, source)]
    try:
        connection = connect(source, CatalogReader(Profile.for_embedded("/nowhere")), fail_without_spark)
        texts += [repr(connection), format_log(None, connection, vars(connection.transport))]
    except ArcticError as error:
        texts += [str(error), format_log(error)]
    assert [text for text in texts if CANARY in text] == []


def fail_without_spark() -> Any:
    raise ConfigError("no Spark here")


@pytest.mark.parametrize("settings", SOURCES.values(), ids=list(SOURCES))
@pytest.mark.parametrize("wrong", ["hosst", "password", "format", "properties"])
def test_a_refused_source_is_described_without_the_secret(
    settings: Mapping[str, Any], wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCTIC_CANARY", CANARY)
    broken = {**settings, wrong: {"password": CANARY} if wrong in ("format", "properties") else [f"password={CANARY}"]}
    text = ""
    try:
        connect(build_source(broken), CatalogReader(Profile.for_embedded("/nowhere")), fail_without_spark)
    except ArcticError as error:
        text = f"{error} {format_log(error)}"
    assert CANARY not in text


# Processes


@pytest.mark.parametrize("name", ["setting of Spark", "setting of Hadoop", "option of Java", "token of a catalog"])
def test_no_process_has_a_secret_on_its_command_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = build_credentials(TARGETS[name]).to_profile(tmp_path)
    commands: list[list[str]] = []
    sent = io.BytesIO()

    class Started:
        """Stands for a process; what it is told on its standard input is no secret to its user alone."""

        stdin = sent

        def __init__(self, command: list[str], **_: Any) -> None:
            commands.append(command)

    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(jvm.jars, "group_paths", lambda _: ())  # They need not be here.
    with (tmp_path / "log").open("wb") as log:
        jvm.spawn_jvm(profile.build_spark_settings(), tmp_path / "connection", log, SHIPPED.engine)
    server.spawn_server(profile, tmp_path)
    assert len(commands) == 2
    assert CANARY not in repr(commands)
    for file in tmp_path.iterdir():
        if CANARY.encode() in file.read_bytes():
            assert file.stat().st_mode & 0o077 == 0, file


# The masks themselves

TEXTS: tuple[Callable[[str], str], ...] = (
    lambda secret: f"password={secret}",
    lambda secret: f'PASSWORD = "{secret}"',
    lambda secret: f"https://me:{secret}@host/path",
    lambda secret: f"https://host/?sig={secret}&x=1",
    lambda secret: f"AccountKey={secret};EndpointSuffix=x",
    lambda secret: f"-Dkey.passphrase={secret}",
    lambda secret: f"Authorization: Bearer {secret}",
    lambda secret: f'{{"password": "{secret}"}}',
    lambda secret: f"{{'s3.secret-access-key': '{secret}'}}",
    lambda secret: f"token: {secret}",
)


@pytest.mark.parametrize("build", TEXTS)
def test_a_text_of_others_with_a_secret_is_masked(build: Callable[[str], str]) -> None:
    assert CANARY not in mask_text(build(CANARY))


@pytest.mark.parametrize("answer", ["YES", "NO"])
def test_a_refusal_tells_whether_a_password_was_sent(answer: str) -> None:
    refusal = f"Access denied for user 'etl'@'localhost' (using password: {answer})"
    assert mask_text(refusal) == refusal
    assert mask_text(f"(password: {answer})") == "(password: ***"
