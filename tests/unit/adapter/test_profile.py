"""Profiles: what Spark and pyiceberg are told, what is refused, and what is never printed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import ICEBERG_EXTENSIONS, Profile, mask_secrets
from dbt.adapters.arctic.credentials import ArcticCredentials

ESCAPED = "spark.sql.parser.escapedStringLiterals"
CASE = "spark.sql.caseSensitive"
REST = {"type": "rest", "uri": "https://catalog.internal", "warehouse": "s3://lake/wh"}


def test_embedded_needs_nothing_but_a_directory(tmp_path: Path) -> None:
    settings = Profile.for_embedded(tmp_path).build_spark_settings()
    assert settings["spark.sql.catalog.lake"] == "org.apache.iceberg.spark.SparkCatalog"
    assert settings["spark.sql.catalog.lake.type"] == "jdbc"
    assert settings["spark.sql.catalog.lake.jdbc.schema-version"] == "V1"
    assert settings["spark.sql.catalog.lake.jdbc.journal_mode"] == "WAL"
    assert settings["spark.sql.catalog.lake.warehouse"] == str(tmp_path)
    assert settings["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:{tmp_path}/catalog.db"
    assert settings["spark.hadoop.fs.defaultFS"] == "file:///"
    assert settings["spark.sql.defaultCatalog"] == "lake"


def test_only_an_embedded_spark_gets_a_file_system_that_its_own_class_path_has(tmp_path: Path) -> None:
    wanted = "spark.hadoop.fs.file.impl"
    assert wanted in Profile.for_embedded(tmp_path).build_spark_settings()
    assert wanted not in Profile.for_embedded(tmp_path, master="spark://host:7077").build_spark_settings()


def test_embedded_makes_a_relative_warehouse_absolute_and_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    profile = Profile.for_embedded("./wh")
    assert profile.sqlite_file == tmp_path / "wh" / "catalog.db"
    assert list(tmp_path.iterdir()) == []


def test_tables_are_format_3_and_sessions_read_no_stale_snapshot(tmp_path: Path) -> None:
    settings = Profile.for_embedded(tmp_path, catalog="c").build_spark_settings()
    assert settings["spark.sql.catalog.c.table-default.format-version"] == "3"
    assert settings["spark.sql.catalog.c.table-default.commit.retry.num-retries"] == "20"
    assert settings["spark.sql.catalog.c.cache-enabled"] == "false"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.sources.v2.bucketing.enabled", "true"),
        ("spark.sql.sources.v2.bucketing.pushPartValues.enabled", "false"),
        ("spark.sql.sources.v2.bucketing.shuffle.enabled", "false"),
        ("spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled", "true"),
        ("spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled", "false"),
        ("spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled", "false"),
        ("spark.sql.iceberg.planning.preserve-data-grouping", "true"),
        ("spark.sql.requireAllClusterKeysForCoPartition", "false"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
    ],
)
def test_every_started_session_has(tmp_path: Path, setting: str, value: str) -> None:
    assert Profile.for_embedded(tmp_path).build_spark_settings()[setting] == value


def test_a_profiles_own_settings_win_over_every_default(tmp_path: Path) -> None:
    own: dict[str, str | int | float | bool] = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.driver.memory": "7g",
        "spark.sql.catalog.lake.cache-enabled": True,
        "spark.sql.shuffle.partitions": 3,
    }
    settings = Profile.for_embedded(tmp_path, settings=own).build_spark_settings()
    assert settings["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert settings["spark.driver.memory"] == "7g"
    assert settings["spark.sql.catalog.lake.cache-enabled"] == "true"
    assert settings["spark.sql.shuffle.partitions"] == "3"


def test_spark_remembers_done_work_for_pages_that_are_shown(tmp_path: Path) -> None:
    """Otherwise its memory grows for as long as it takes to do as much work as it remembers by itself."""
    kept = "spark.sql.ui.retainedExecutions"
    assert int(Profile.for_embedded(tmp_path).build_spark_settings()[kept]) < 100
    shown: dict[str, str | int | float | bool] = {"spark.ui.enabled": True}
    assert kept not in Profile.for_embedded(tmp_path, settings=shown).build_spark_settings()


def test_extensions_of_ones_own_keep_icebergs(tmp_path: Path) -> None:
    profile = Profile.for_embedded(tmp_path, settings={"spark.sql.extensions": "com.example.Mine"})
    assert profile.build_spark_settings()["spark.sql.extensions"] == f"{ICEBERG_EXTENSIONS},com.example.Mine"


@pytest.mark.parametrize(("master", "partitions"), [("local", "8"), ("local[2]", "8"), ("local[16]", "32")])
def test_shuffle_partitions_follow_the_embedded_master(tmp_path: Path, master: str, partitions: str) -> None:
    settings = Profile.for_embedded(tmp_path, master=master).build_spark_settings()
    assert settings["spark.sql.shuffle.partitions"] == partitions


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[4,2]", True),
        ("local-cluster[2,1,1024]", False),
        ("yarn", False),
    ],
)
def test_only_a_master_in_this_process_is_local(master: str, local: bool) -> None:
    profile = Profile(catalog_properties=REST, master=master)
    assert profile.is_local is local
    assert ("spark.driver.memory" in profile.build_spark_settings()) is local


def test_connect_sends_no_setting_that_only_a_start_can_take() -> None:
    profile = Profile(method="connect", url="sc://spark.internal:15002", catalog_properties=REST)
    settings = profile.build_session_settings()
    assert "spark.sql.extensions" not in settings
    assert "spark.ui.enabled" not in settings
    assert settings["spark.sql.catalog.lake.uri"] == "https://catalog.internal"


def test_connect_leaves_a_catalog_alone_that_the_server_has_configured() -> None:
    settings = Profile(method="connect", url="sc://spark.internal:15002").build_session_settings()
    assert not [key for key in settings if key.startswith("spark.sql.catalog.")]


def test_pyiceberg_opens_the_embedded_catalog_under_the_same_name_and_never_creates_it(
    tmp_path: Path,
) -> None:
    assert Profile.for_embedded(tmp_path).build_pyiceberg_properties() == {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db?timeout=60",
        "warehouse": str(tmp_path),
        "init_catalog_tables": "false",
        "py-io-impl": "arctic_runtime.catalog.storage.checked_files.CheckedFileIO",
    }


def test_pyiceberg_gets_the_credentials_of_a_rest_catalog_but_not_javas_classes() -> None:
    secrets = {"credential": "id:pw", "token": "t", "s3.secret-access-key": "k"}
    profile = Profile(catalog_properties={**REST, **secrets, "io-impl": "org.example.IO"})
    built = profile.build_pyiceberg_properties()
    assert built is not None
    assert {key: built[key] for key in {**REST, **secrets}} == {**REST, **secrets}
    assert "io-impl" not in built


def test_pyiceberg_logs_in_to_postgres_as_java_does() -> None:
    profile = Profile(
        catalog_properties={
            "type": "jdbc",
            "uri": "jdbc:postgresql://db:5432/cat",
            "warehouse": "s3://lake/wh",
            "jdbc.user": "me",
            "jdbc.password": "p@ss/word",
        }
    )
    properties = profile.build_pyiceberg_properties()
    assert properties is not None
    assert properties["uri"] == "postgresql+psycopg2://me:p%40ss%2Fword@db:5432/cat"
    assert "jdbc.password" not in properties


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "hadoop", "warehouse": "/wh"},
        {"type": "jdbc", "uri": "jdbc:mysql://db/cat", "warehouse": "/wh"},
    ],
)
def test_pyiceberg_is_not_asked_where_it_cannot_open_the_catalog(properties: dict[str, str]) -> None:
    assert Profile(catalog_properties=properties).build_pyiceberg_properties() is None


def test_repr_shows_no_secret() -> None:
    profile = Profile(
        method="connect",
        url="sc://spark.internal:15002/;token=hush1",
        catalog_properties={
            **REST,
            "uri": "https://me:hush2@catalog.internal/?access_token=hush3",
            "token": "hush4",
            "credential": "hush5",
            "s3.secret-access-key": "hush6",
            "jdbc.password": "hush7",
            "header.Authorization": "hush8",
        },
        settings={"spark.ssl.keyPassword": "hush9"},
    )
    text = repr(profile)
    assert "hush" not in text
    assert "spark.internal:15002" in text
    assert "s3://lake/wh" in text


@pytest.mark.parametrize(
    "key",
    [
        "fs.azure.account.key.store.dfs.core.windows.net",
        "adls.auth.shared-key.account.key",
        "adls.connection-string.store",
        "adls.sas-token.store",
        "header.X-Tenant",
        "spark.sql.catalog.lake.header.X-Tenant",
        "spark.ssl.privateKeyPassphrase",
        "spark.hadoop.db.pwd",
        "sasl.jaas.config",
        "s3.sse.key",
        "client.api_key",
    ],
)
def test_a_key_that_may_name_a_secret_hides_its_value(key: str) -> None:
    assert mask_secrets({key: "hush"}) == {key: "***"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("-Xss4m -Djavax.net.ssl.trustStorePassword=hu;sh", "-Xss4m -Djavax.net.ssl.trustStorePassword=***"),
        ("'-Ddb.passphrase=hush hush' -Da=b", "'-Ddb.passphrase=***' -Da=b"),
        ('-Ddb.pwd="hush hush" -Da=b', "-Ddb.pwd=*** -Da=b"),
        ("AccountName=a;AccountKey=hush==;EndpointSuffix=c", "AccountName=a;AccountKey=***;EndpointSuffix=c"),
        ("jdbc:sqlserver://db;user=me;pwd=hush;encrypt=true", "jdbc:sqlserver://db;user=me;pwd=***;encrypt=true"),
        ("jdbc:oracle:thin:me/hush@//db:1521/x", "jdbc:oracle:thin:me/***@//db:1521/x"),
        ("https://store/x?sv=3&sig=hush&se=4", "https://store/x?sv=3&sig=***&se=4"),
        ("https://me:hu@sh/@host/x", "https://me:***@host/x"),
        ('Login required username="me" password="hush";', 'Login required username="me" password=***;'),
    ],
)
def test_a_secret_inside_a_value_is_hidden_and_the_rest_is_shown(value: str, shown: str) -> None:
    assert mask_secrets({"spark.driver.extraJavaOptions": value}) == {"spark.driver.extraJavaOptions": shown}


@pytest.mark.parametrize("key", [ESCAPED, CASE])
def test_texts_and_names_are_read_the_same_under_any_server_settings(tmp_path: Path, key: str) -> None:
    profile = Profile.for_embedded(tmp_path, settings={key: "false"})
    assert (
        profile.build_spark_settings()[key] == Profile.for_embedded(tmp_path).build_session_settings()[key] == "false"
    )


def test_masking_hides_none_of_the_default_settings(tmp_path: Path) -> None:
    settings = Profile.for_embedded(tmp_path).build_spark_settings()
    assert mask_secrets(settings) == settings


def test_masking_keeps_what_is_not_secret() -> None:
    shown = {"uri": "jdbc:sqlite:/wh/catalog.db", "warehouse": "/my keys=1/wh", "jdbc.busy_timeout": "1"}
    assert mask_secrets(shown) == shown


def test_a_profile_survives_pickling(tmp_path: Path) -> None:
    profile = Profile.for_embedded(tmp_path)
    assert pickle.loads(pickle.dumps(profile)) == profile


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a`b", "1a", "spark_catalog", "a-b", "lake;drop"])
def test_a_catalog_name_that_would_need_quotes_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="catalog's name can't be used"):
        Profile.for_embedded(tmp_path, catalog=name)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"method": "conect", "url": "sc://h"}, "did you mean 'connect'"),
        ({"method": "connect"}, "which Spark Connect server"),
        ({"method": "connect", "url": "http://h"}, "which Spark Connect server"),
        ({"method": "connect", "url": "local[2]"}, "which Spark Connect server"),
        ({"method": "connect", "url": "local"}, "catalog's type is unknown"),
        ({"url": "sc://h", "catalog_properties": REST}, "url that nothing would use"),
        ({}, "catalog's type is unknown"),
        ({"catalog_properties": {"type": "rset", "uri": "u"}}, "did you mean 'rest'"),
        ({"catalog_properties": {"type": "rest"}}, "needs 'uri'"),
        ({"catalog_properties": {"type": "jdbc", "uri": "jdbc:sqlite:/x"}}, "needs 'warehouse'"),
        ({"catalog_properties": REST, "settings": {"catalog": "x"}}, "is not a Spark setting"),
        ({"catalog_properties": REST, "settings": {ESCAPED: " True"}}, f"'{ESCAPED}' can't be set"),
        ({"catalog_properties": REST, "settings": {CASE: "true"}}, f"'{CASE}' can't be set"),
        ({"catalog_properties": {**REST, "uri": ["a"]}}, "no usable value"),
    ],
)
def test_a_contradictory_profile_is_refused(kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        Profile(**kwargs)  # type: ignore[arg-type]
    for part in ("where:", "expected:", "found:", "what to do:"):
        assert part in str(refused.value)


@pytest.mark.parametrize("warehouse", ["", " ", "/a?b", "/a#b"])
def test_a_warehouse_that_sqlite_would_open_elsewhere_is_refused(warehouse: str) -> None:
    with pytest.raises(ConfigError, match="warehouse"):
        Profile.for_embedded(warehouse)


@pytest.mark.parametrize("read", [Profile.for_embedded, lambda path: ArcticCredentials("lake", "dws", warehouse=path)])
@pytest.mark.parametrize(
    ("warehouse", "advice"),
    [
        ("hdfs://name:8020/x", "warehouse: hdfs://…"),
        ("s3:bucket", "./ in front"),
        ("https://host/catalog", "type: rest"),
        ("http://host", "type: rest"),
        ("file://host/srv", "write file:///"),
        ("file:srv", "write file:///"),
        ("C:\\\\lake", "a path of this system"),
        ("c:/lake", "a path of this system"),
    ],
)
def test_a_warehouse_that_is_no_folder_of_this_machine_is_refused_by_name(
    warehouse: str, advice: str, read: Callable[[str], object]
) -> None:
    with pytest.raises((ConfigError, DbtRuntimeError), match="not a folder of this machine") as refused:
        read(warehouse)
    assert repr(warehouse) in str(refused.value)
    assert advice in str(refused.value)


@pytest.mark.parametrize(
    ("warehouse", "address", "file"),
    [
        ("s3://bucket/path", "s3://bucket/path", "s3/bucket/path"),
        ("s3a://bucket/a//b/", "s3a://bucket/a/b", "s3/bucket/a/b"),
        ("S3://bucket", "s3://bucket", "s3/bucket"),
        ("gs://bucket", "gs://bucket", "gs/bucket"),
        ("abfss://files@account.dfs.net/x", "abfss://files@account.dfs.net/x", "abfss/files@account.dfs.net/x"),
    ],
)
def test_a_warehouse_in_a_store_has_its_catalog_in_the_projects_folder(warehouse: str, address: str, file: str) -> None:
    profile = ArcticCredentials(database="lake", schema="dws", warehouse=warehouse).to_profile(Path("/base"))
    assert profile.catalog_properties["warehouse"] == address
    assert profile.sqlite_file == Path("/base/.arctic") / file / "catalog.db"
    assert "io-impl" in profile.catalog_properties


def test_keys_of_the_store_stand_beside_a_warehouse_in_a_store_and_are_masked() -> None:
    given = {"s3.endpoint": "http://minio:9000", "s3.access-key-id": "ME", "s3.secret-access-key": "HUSH"}
    credentials = ArcticCredentials(database="lake", schema="dws", warehouse="s3://b/wh", catalog_config=given)
    profile = credentials.to_profile(Path("/base"))
    assert given.items() <= profile.catalog_properties.items()
    assert given.items() <= (profile.build_pyiceberg_properties() or {}).items()
    for shown in (repr(profile), repr(dict(credentials.connection_info()))):
        assert "HUSH" not in shown
        assert "http://minio:9000" in shown


@pytest.mark.parametrize(
    ("warehouse", "keys", "message"),
    [
        ("s3://b/wh", {"s3.endpoint": "x", "uri": "http://catalog"}, "'uri' can't be set beside `warehouse`"),
        ("s3://b/wh", {"type": "rest"}, "'type' can't be set beside `warehouse`"),
        ("./warehouse", {"s3.endpoint": "x"}, "contradict each other"),
        ("s3://", {}, "address can't be used"),
        ("s3://b/../wh", {}, "address can't be used"),
        ("s3://b/wh?x=1", {}, "address can't be used"),
        ("s3://KEY:HUSH@b/wh", {}, "address can't be used"),
    ],
)
def test_what_makes_no_sense_for_a_warehouse_in_a_store_is_refused(
    warehouse: str, keys: dict[str, str], message: str
) -> None:
    with pytest.raises(DbtRuntimeError, match=message) as refused:
        ArcticCredentials(database="lake", schema="dws", warehouse=warehouse, catalog_config=keys)
    assert "HUSH" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ({"catalog_properties": {"type": "rest", "uri": "u", "warehouse": "s3://b/wh"}}, ("aws",)),
        ({"catalog_properties": {"type": "rest", "uri": "u", "warehouse": "wh", "s3.endpoint": "e"}}, ("aws",)),
        ({"catalog_properties": {"type": "glue"}}, ("aws",)),
        ({"catalog_properties": {"type": "rest", "uri": "u", "warehouse": "wh"}}, ()),
        ({"catalog_properties": {"type": "rest", "uri": "u", "warehouse": "gs://b"}}, ("gcs",)),
        (
            {
                "catalog_properties": {"type": "rest", "uri": "u", "warehouse": "abfss://b@c/d"},
                "settings": {"spark.driver.extraClassPath": "/opt/iceberg-azure-bundle-1.12.0.jar"},
            },
            (),
        ),
        (
            {
                "catalog_properties": {"type": "rest", "uri": "u", "warehouse": "s3://b/wh"},
                "settings": {"spark.arctic.jars": "kafka", "spark.jars.packages": "a:iceberg-aws-bundle:1"},
            },
            ("kafka", "aws"),
        ),
        (
            {
                "catalog_properties": {"type": "rest", "uri": "u", "warehouse": "s3://b/wh"},
                "master": "yarn",
                "settings": {"spark.jars.packages": "a:iceberg-aws-bundle:1"},
            },
            (),
        ),
    ],
)
def test_spark_starts_with_the_jar_of_the_store(given: dict[str, Any], groups: tuple[str, ...]) -> None:
    profile = Profile(**given)
    assert profile.jar_groups == groups
    assert profile.build_spark_settings().get("spark.arctic.jars", "") == ",".join(groups)


@pytest.mark.parametrize(
    ("warehouse", "folder"),
    [
        ("file:///srv/wh", "/srv/wh"),
        ("file:/srv/wh", "/srv/wh"),
        ("file://localhost/srv/my%20wh", "/srv/my wh"),
        ("/srv/a:b", "/srv/a:b"),
        ("./s3:x", "/base/s3:x"),
        ("wh", "/base/wh"),
    ],
)
def test_a_folder_may_be_written_as_a_file_uri(warehouse: str, folder: str) -> None:
    credentials = ArcticCredentials(database="lake", schema="dws", warehouse=warehouse)
    assert credentials.to_profile(Path("/base")).sqlite_file == Path(folder) / "catalog.db"


def test_a_refusal_shows_no_secret_of_the_url() -> None:
    with pytest.raises(ConfigError) as refused:
        Profile(method="session", url="sc://h:1/;token=hush", catalog_properties=REST)
    assert "hush" not in str(refused.value)


def test_a_warehouse_on_this_machine_may_have_a_server_that_is_kept(tmp_path: Path) -> None:
    kept = Profile.for_embedded(tmp_path, method="connect", url="local", master="local[2]")
    assert (kept.is_kept, kept.is_local) == (True, False)
    assert kept.started == Profile.for_embedded(tmp_path, master="local[2]")
    assert kept.sqlite_file == tmp_path / "catalog.db"


@pytest.mark.parametrize("url", [None, "sc://elsewhere"])
def test_a_warehouse_on_this_machine_has_no_other_server(tmp_path: Path, url: str | None) -> None:
    with pytest.raises(ConfigError, match="expected: url: local"):
        Profile.for_embedded(tmp_path, method="connect", url=url)


@pytest.mark.parametrize(
    ("written", "seconds"), [(None, 14 * 86_400), ("12h", 43_200), ("2w", 14 * 86_400), ("off", None), (False, None)]
)
def test_how_long_unused_clones_stay_is_read(tmp_path: Path, written: str | bool | None, seconds: float | None) -> None:
    credentials = ArcticCredentials(database="lake", schema="dws", warehouse=str(tmp_path), clone_ttl=written)
    assert credentials.to_profile(tmp_path).clone_ttl_seconds == seconds


def test_another_time_for_clones_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DbtRuntimeError, match="`clone_ttl` must be an age"):
        ArcticCredentials(database="lake", schema="dws", warehouse=str(tmp_path), clone_ttl="soon").to_profile(tmp_path)
