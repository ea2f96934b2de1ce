"""Starting Spark and its sessions: what is shared, what is not, and what tables are like by default."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arctic_runtime.catalog.storage.embedded_warehouse import prepare_warehouse
from arctic_runtime.errors import CatalogError, ConfigError
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine import connection as connecting
from arctic_runtime.spark.engine.java import jars, jvm
from arctic_runtime.spark.engine.java.jvm import JVM_OPTIONS
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.engine.spark_loss import to_spark_ended
from arctic_runtime.thresholds import EngineThresholds, Thresholds
from tests.thresholds import changed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def properties(spark: SparkSession, table: str) -> dict[str, str]:
    return {row["key"]: row["value"] for row in spark.sql(f"show tblproperties {table}").collect()}


def columns(database: Path) -> dict[str, list[tuple[object, ...]]]:
    """Each catalog table's columns: name, type, not null, position in the primary key."""
    with closing(sqlite3.connect(database)) as connection:
        tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        return {
            table: [
                (name, kind.lower(), bool(required), place)
                for _, name, kind, required, _, place in connection.execute(f"pragma table_info({table})")
            ]
            for table in tables
        }


def test_settings_of_one_session_are_not_seen_by_another(environment: SparkEnvironment) -> None:
    one, other = environment.new_session(), environment.new_session()
    one.conf.set("spark.sql.iceberg.snapshot-property.run", "1")
    one.conf.set("spark.sql.shuffle.partitions", "77")
    assert other.conf.get("spark.sql.iceberg.snapshot-property.run", None) is None
    assert other.conf.get("spark.sql.shuffle.partitions") == "2"


def test_temporary_views_of_one_session_are_not_seen_by_another(environment: SparkEnvironment) -> None:
    one, other = environment.new_session(), environment.new_session()
    one.range(3).createOrReplaceTempView("mine")
    assert one.catalog.tableExists("mine")
    assert not other.catalog.tableExists("mine")


def test_the_current_namespace_belongs_to_its_session(environment: SparkEnvironment, namespace: str) -> None:
    one, other = environment.new_session(), environment.new_session()
    one.sql(f"use {namespace}")
    assert one.catalog.currentDatabase() == namespace.split(".")[1]
    assert other.catalog.currentDatabase() != namespace.split(".")[1]


def test_sessions_see_what_others_commit(environment: SparkEnvironment, namespace: str) -> None:
    one, other = environment.new_session(), environment.new_session()
    one.sql(f"create table {namespace}.t as select 1 as id")
    assert other.table(f"{namespace}.t").count() == 1
    one.sql(f"insert into {namespace}.t values (2)")
    assert other.table(f"{namespace}.t").count() == 2


def test_threads_get_sessions_of_their_own(environment: SparkEnvironment) -> None:
    together = threading.Barrier(4)

    def ask(number: int) -> str:
        together.wait()
        mine = environment.new_session()
        mine.range(number).createOrReplaceTempView("mine")
        return str(mine.table("mine").count())

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(4))) == ["0", "1", "2", "3"]


def test_versions_name_everything_that_does_the_work(environment: SparkEnvironment) -> None:
    versions = environment.list_versions()
    assert versions["spark"].startswith("4.1.")
    assert versions["iceberg"] == jars.JARS[0].version
    assert versions["java"] == jars.find_java().version
    assert versions["python"] == sys.version.split()[0]


@pytest.mark.parametrize(
    "statement",
    [
        "create table {} (id bigint)",
        "create table {} as select 1 as id",
        "create or replace table {} as select 1 as id",
    ],
    ids=["create", "ctas", "replace"],
)
def test_tables_are_format_3_with_patient_commits(spark: SparkSession, namespace: str, statement: str) -> None:
    spark.sql(statement.format(f"{namespace}.t"))
    table_properties = properties(spark, f"{namespace}.t")
    assert table_properties["format-version"] == "3"
    assert table_properties["commit.retry.num-retries"] == "20"


def test_files_are_written_without_a_process_for_each(spark: SparkSession) -> None:
    """Spark asks for a file system before it has all its settings, and keeps the first that it gets."""
    java = spark._jvm
    assert java is not None
    file_system = java.org.apache.hadoop.fs.FileSystem.get(
        java.java.net.URI("file:///"), spark._jsc.hadoopConfiguration()
    )
    assert file_system.getClass().getSimpleName() == "BareLocalFileSystem"


def test_pyiceberg_reads_what_spark_wrote(environment: SparkEnvironment, spark: SparkSession, namespace: str) -> None:
    from pyiceberg.catalog import load_catalog

    spark.sql(f"create table {namespace}.t as select id from range(3)")
    given = environment.profile.build_pyiceberg_properties()
    assert given is not None
    table = load_catalog("lake", **given).load_table((namespace.split(".")[1], "t"))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_profiles_that_differ_in_their_catalog_share_one_spark(
    environment: SparkEnvironment, spark: SparkSession, embedded: Callable[..., Profile], tmp_path: Path
) -> None:
    other = SparkEnvironment(embedded(tmp_path / "a 'b' c", catalog="pond"))
    assert other.is_started
    theirs = other.new_session()
    theirs.sql("create namespace pond.n")
    theirs.sql("create table n.t as select 1 as id")
    assert (tmp_path / "a 'b' c" / "n" / "t" / "metadata").is_dir()
    assert theirs.table("pond.n.t").count() == 1
    assert theirs.conf.get("spark.sql.catalog.lake", None) is None
    assert spark.conf.get("spark.sql.catalog.pond", None) is None


def test_a_profile_that_needs_another_spark_is_refused(
    environment: SparkEnvironment, embedded: Callable[..., Profile], tmp_path: Path
) -> None:
    environment.new_session()
    other = SparkEnvironment(embedded(tmp_path, settings={"spark.driver.memory": "3g"}))
    assert not other.is_started
    with pytest.raises(ConfigError, match=r"expected: .*spark\.driver\.memory=3g"):
        other.new_session()


def test_a_prepared_warehouse_is_what_iceberg_itself_would_make(environment: SparkEnvironment, tmp_path: Path) -> None:
    prepared = Profile.for_embedded(tmp_path / "prepared")
    prepare_warehouse(prepared)
    theirs = Profile.for_embedded(tmp_path / "theirs", catalog="theirs")
    assert theirs.sqlite_file is not None
    theirs.sqlite_file.parent.mkdir()
    theirs.sqlite_file.touch()  # as SQLite begins a database, which the settings leave to the reader of the catalog
    mine = environment.new_session()
    for key, value in theirs.build_session_settings().items():
        mine.conf.set(key, value)
    mine.sql("create namespace theirs.n")
    assert prepared.sqlite_file is not None
    assert columns(prepared.sqlite_file) == columns(theirs.sqlite_file)
    with closing(sqlite3.connect(theirs.sqlite_file)) as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)


@pytest.mark.slow
def test_a_locked_catalog_is_waited_for(environment: SparkEnvironment, spark: SparkSession) -> None:
    """Longer than the driver's own 3 s, so that only the profile's timeout can be what waits."""
    file = environment.profile.sqlite_file
    assert file is not None
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("begin immediate")
        release = threading.Timer(5.0, lambda: connection.execute("rollback"))
        release.start()
        began = time.monotonic()
        spark.sql("create namespace lake.patient")
        assert time.monotonic() - began > 4
        release.join()


def test_an_unusable_warehouse_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(CatalogError, match=r"(?s)can't be used.*catalog\.db.*what to do"):
        prepare_warehouse(Profile.for_embedded(tmp_path / "file" / "warehouse"))


def test_a_catalog_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("not a database, and longer than an empty one" * 20)
    with pytest.raises(CatalogError, match="not a database"):
        prepare_warehouse(Profile.for_embedded(tmp_path))


def test_a_catalog_that_stays_locked_says_whom_to_look_for(tmp_path: Path) -> None:
    impatient = changed(Thresholds(), commits={"lock_wait_seconds": 0.1})
    with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as connection:
        connection.execute("begin exclusive")
        with pytest.raises(CatalogError, match="fuser"):
            prepare_warehouse(Profile.for_embedded(tmp_path, thresholds=impatient))


def test_the_jvm_gets_the_options_that_sparks_own_launcher_gives() -> None:
    """All but the incubator module, for which every JVM prints a warning."""
    home = jvm.find_spark_home()
    launcher = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]
    said = subprocess.run(
        [str(jars.find_java().executable), "-cp", str(home / "jars" / "*"), *launcher],
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=True,
    )
    parts = said.stdout.split("\0")
    options = [part for part in parts if part.startswith("-") and not part.startswith("-Xmx")]
    expected = {option for option in options if option not in ("-cp", "--add-modules=jdk.incubator.vector")}
    assert expected == set(JVM_OPTIONS)


def test_a_jvm_that_ends_at_once_is_reported_with_its_last_words() -> None:
    with pytest.raises(ConfigError, match=r"(?s)Spark did not start.*Invalid maximum heap size: -Xmxmuch"):
        jvm.launch_jvm({"spark.driver.memory": "much"}, EngineThresholds())


@pytest.mark.parametrize("killed", [True, False])
def test_the_error_for_an_ended_java_has_its_exit_and_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    log = tmp_path / "spark.log"
    log.write_text("There is insufficient memory for the Java Runtime Environment to continue.\n  at a.B.c(B.java)\n")
    java = subprocess.Popen([sys.executable, "-c", "input()" if killed else "raise SystemExit(134)"], stdin=-1)
    monkeypatch.setattr(PROCESS, "server", "")
    monkeypatch.setattr(PROCESS, "thresholds", EngineThresholds(jvm_exit_code_seconds=0.01 if killed else 5.0))
    monkeypatch.setattr(PROCESS, "jvm", java)
    monkeypatch.setattr(PROCESS, "log", log)
    if killed:
        assert to_spark_ended(ConnectionResetError()) is None
        java.kill()
    java.wait()
    lost = RuntimeError("no session")
    lost.__context__ = ConnectionRefusedError(111, "Connection refused")
    message = str(to_spark_ended(lost))
    assert ("signal 9 ended it: somebody did, or the machine had no memory left" if killed else "code 134") in message
    assert f"log: {log}\n    There is insufficient memory" in message
    assert "B.java" not in message
    assert to_spark_ended(ValueError("no such column")) is None


def test_the_error_for_an_ended_server_has_its_address_and_not_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "sc://127.0.0.1:9/;token=hush"
    monkeypatch.setattr(PROCESS, "server", url)
    monkeypatch.setattr(PROCESS, "thresholds", EngineThresholds())
    message = str(to_spark_ended(ConnectionRefusedError()))
    assert "the server at 127.0.0.1:9" in message
    assert "hush" not in message


def test_a_server_that_is_not_there_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"(?s)No Spark Connect server answers.*127\.0\.0\.1:9\b"):
        connecting.check_reachable("sc://127.0.0.1:9/;token=hush", EngineThresholds())


def test_no_setting_of_a_profile_is_on_a_command_line_and_java_reads_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java itself is replaced by a program that prints its options and its arguments, as Java and Spark read them."""
    commands: list[list[str]] = []

    def note(command: list[str], **_: object) -> subprocess.Popen[bytes]:
        commands.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", note)
    settings = {
        "spark.jars.repositories": "https://me:hush@repository",
        "spark.submit.any": 'hush = "a\\b" # \n!',
        "spark.driver.extraJavaOptions": "-Dstore.Password=hush '-Da.b=hush \"1\" \\2'",
    }
    with (tmp_path / "log").open("wb") as log, pytest.raises(KeyboardInterrupt):
        jvm.spawn_jvm(settings, tmp_path / "connection", log, EngineThresholds())
    assert "hush" not in " ".join(commands[0])
    monkeypatch.undo()
    show = tmp_path / "Show.java"
    show.write_text(_SHOW_JAVA)
    options = [part for part in commands[0] if part.startswith("@")]
    properties_file = commands[0][commands[0].index("--properties-file") + 1]
    shown = subprocess.run(
        [str(jars.find_java().executable), *options, str(show), properties_file],
        capture_output=True,
        text=True,
        check=True,
    )
    early = {key: value for key, value in settings.items() if not key.endswith("JavaOptions")}
    expected = {"store.Password": "hush", "a.b": 'hush "1" \\2', **early}
    assert dict(zip(*[iter(shown.stdout.split("\0")[:-1])] * 2, strict=True)) == expected
    files = [Path(properties_file), *(Path(option[1:]) for option in options)]
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}


_SHOW_JAVA = """
import java.io.*; import java.nio.file.*; import java.util.*;
public class Show {
    public static void main(String[] files) throws IOException {
        Properties all = new Properties();
        for (String name : List.of("store.Password", "a.b")) all.put(name, System.getProperty(name));
        try (Reader reader = Files.newBufferedReader(Path.of(files[0]))) { all.load(reader); }
        for (String name : all.stringPropertyNames()) System.out.print(name + "\\0" + all.getProperty(name) + "\\0");
    }
}
"""


@pytest.mark.slow
def test_a_start_prints_nothing_and_can_be_repeated_after_a_stop(tmp_path: Path) -> None:
    program = (
        "import sys; from arctic_runtime.profile import Profile; "
        "from arctic_runtime.spark.engine.session import SparkEnvironment; "
        "environment = SparkEnvironment(Profile.for_embedded(sys.argv[1])); "
        "environment.new_session().range(1).collect(); environment.stop_spark(); assert not environment.is_started; "
        "environment.new_session().sql('create namespace lake.n'); environment.stop_spark()"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_values_of_avro_are_limited_where_messages_are_avro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the options of users, which have precedence."""
    commands: list[list[str]] = []

    def note(command: list[str], **_: object) -> subprocess.Popen[bytes]:
        commands.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", note)
    own = {"spark.driver.extraJavaOptions": "-Da.b=c"}
    for groups in ("kafka", "kafka, avro"):
        folder = tmp_path / groups
        folder.mkdir()
        with (folder / "log").open("wb") as log, pytest.raises(KeyboardInterrupt):
            jvm.spawn_jvm({JARS_SETTING: groups, **own}, folder / "connection", log, EngineThresholds())
    without, limited = ([option for option in command if "apache.avro" in option] for command in commands)
    assert without == []
    assert [option.split(".")[-2] for option in limited] == ["bytes", "string", "collectionItems"]
    [chosen] = [place for place, option in enumerate(commands[1]) if option.startswith("@")]
    assert all(commands[1].index(option) < chosen for option in limited)
