"""Starting Spark, or joining one, and handing every thread a session of its own.

An embedded Spark is started without Spark's shell scripts: one JVM and not two, nothing of its output on the
terminal, no setting on a command line that others can read, and pyspark imported while the JVM comes up.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import platform
import re
import shlex
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from arctic_runtime.errors import CatalogError, ConfigError
from arctic_runtime.profile import BUSY_TIMEOUT_SECONDS, ICEBERG_EXTENSIONS, Profile, fixed, masked
from arctic_runtime.spark.engine import jars, server
from arctic_runtime.spark.engine.private_files import arguments_text, properties_text, write_private

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

START_SECONDS = 120.0
_POLL_SECONDS = 0.02
_END_SECONDS = 30.0
_REACH_SECONDS = 10.0
_CONNECT_PORT = 15002
# Half a minute, where pyspark by itself would try for ten.
_RETRIES = 7
_MOST_BACKOFF_MILLIS = 8_000
METHOD = "method"
_ENDING_SECONDS = 5.0
_MEMORY = ": somebody did, or the machine had no memory left"
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_BEFORE_CONTEXT = ("spark.jars", "spark.files", "spark.archives", "spark.submit.")
_LOGS_KEPT = 20
# As Spark's own launcher gives them, less the incubator module that makes every JVM print a warning.
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
# The form of the tables that Iceberg's JDBC catalog makes for itself with jdbc.schema-version=V1.
_CATALOG_TABLES = (
    """create table if not exists iceberg_tables (
        catalog_name varchar(255) not null,
        table_namespace varchar(255) not null,
        table_name varchar(255) not null,
        metadata_location varchar(1000),
        previous_metadata_location varchar(1000),
        iceberg_type varchar(5),
        primary key (catalog_name, table_namespace, table_name))""",
    """create table if not exists iceberg_namespace_properties (
        catalog_name varchar(255) not null,
        namespace varchar(255) not null,
        property_key varchar(255),
        property_value varchar(1000),
        primary key (catalog_name, namespace, property_key))""",
)


_REHEARSAL = (
    "create namespace lake.rehearsal",
    """create table lake.rehearsal.t using iceberg partitioned by (bucket(4, id)) as
        select id, id % 7 as grp, cast(id as string) as name, timestamp_micros(id) as at,
               cast(id as decimal(12, 2)) as amount from range(1000)""",
    "create table lake.rehearsal.u (id bigint not null, grp bigint, name string) using iceberg",
    "insert into lake.rehearsal.u select id, grp, upper(name) from lake.rehearsal.t where id < 10",
    """merge into lake.rehearsal.t using lake.rehearsal.u on t.id = u.id
        when matched and u.id = 3 then delete when matched then update set name = u.name
        when not matched then insert (id, grp, name) values (u.id, u.grp, u.name)""",
    """create view lake.rehearsal.v as select grp, count(*) as n, sum(amount) as total, max(at) as latest
        from lake.rehearsal.t group by grp""",
    """select v.*, row_number() over (partition by n order by total) as place
        from lake.rehearsal.v left join lake.rehearsal.u using (grp)""",
    "select * from lake.rehearsal.t.snapshots",
    "alter table lake.rehearsal.t set tblproperties ('k' = 'v')",
    "show tables in lake.rehearsal",
    "drop view lake.rehearsal.v",
)


@dataclass
class SparkProcess:
    """The one Spark that this process may have, and the JVM that outlives its Spark context."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    settings: Mapping[str, str] = field(default_factory=dict)
    root: SparkSession | None = None
    gateway: JavaGateway | None = None
    jvm: subprocess.Popen[bytes] | None = None
    log: Path = Path()
    server: str = ""
    lent: weakref.WeakSet[SparkSession] = field(default_factory=weakref.WeakSet)


spark_process = SparkProcess()


@dataclass(frozen=True)
class Spark:
    """A Spark of this process, and the Java that it runs in; `log` is what Java prints."""

    session: SparkSession
    java: subprocess.Popen[bytes]
    log: Path

    def is_alive(self) -> bool:
        return self.java.poll() is None

    def end(self) -> None:
        """Ends Java, and returns when it is gone."""
        if self.java.stdin is not None:
            self.java.stdin.close()
        try:
            self.java.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.java.kill()
            self.java.wait()


@dataclass(frozen=True)
class End:
    """Where Spark was, how it ended, and its log where that is a file of this machine."""

    where: str
    how: str
    log: Path


def how_spark_ended() -> End | None:
    """How the Java, or the server, that this process works with has ended; None while it is there."""
    if spark_process.settings.get(METHOD, "").startswith("connect"):
        try:
            reach(spark_process.server)
        except ConfigError:
            parts = urlsplit(spark_process.server)
            return End(f"the server at {parts.hostname}:{parts.port}", "it does not answer any more", spark_process.log)
        return None
    if spark_process.jvm is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        code = spark_process.jvm.wait(_ENDING_SECONDS)
        how = f"it ended with code {code}" if code >= 0 else f"signal {-code} ended it{_MEMORY if code == -9 else ''}"
        return End(f"Java, process {spark_process.jvm.pid}", how, spark_process.log)
    return None


class SparkEnvironment:
    """Sessions of the Spark that a profile describes; starts it when the first one is asked for.

    A process has one Spark. Environments whose profiles differ in SQL settings alone, catalogs among them,
    share it; one that differs in more gets a ConfigError until `stop`. Methods may be called from any thread.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._prepared = False

    @property
    def started(self) -> bool:
        """Whether a session can be had without starting or connecting anything."""
        return spark_process.root is not None and fixed(spark_process.settings) == fixed(_wanted(self.profile))

    def session(self) -> SparkSession:
        """A new session whose settings, temporary views and current namespace nobody else sees.

        Raises ConfigError where Java or the JARs are missing, or no server answers, CatalogError where the warehouse
        can't be used.
        """
        with spark_process.lock:
            root = self._root()
        if self.profile.method == "connect":
            return _connect(spark_process.server, self.profile.session_settings())
        return _configured(root.newSession(), spark_process.settings, _wanted(self.profile))

    def discard(self, session: SparkSession) -> None:
        """Lets a session go that nobody will use again; a server would keep it for an hour."""
        if self.profile.method == "connect":
            spark_process.lent.discard(session)
            with suppress(Exception):  # The server may be gone, and the session with it.
                session.stop()

    def versions(self) -> dict[str, str]:
        """The versions of `spark`, `iceberg`, `java` and `python` that do the work."""
        from pyspark.sql import functions as F

        session = self.session()
        java = F.reflect(F.lit("java.lang.System"), F.lit("getProperty"), F.lit("java.version"))
        iceberg = F.call_function(f"{self.profile.catalog}.system.iceberg_version")
        row = session.range(1).select(java.alias("java"), iceberg.alias("iceberg")).first()
        if row is None:
            raise CatalogError("Spark returned no row where it was asked for its versions.")
        return {
            "spark": session.version,
            "iceberg": row["iceberg"],
            "java": row["java"],
            "python": platform.python_version(),
        }

    def stop(self) -> None:
        """Stop Spark, for everybody in this process; the next `session` starts it again.

        The JVM stays, and with it the memory and the Java options that it was started with. Of a server only the
        sessions of this process end.
        """
        with spark_process.lock:
            if spark_process.root is not None and self.started:
                _release()
                spark_process.root.stop()
                spark_process.root, spark_process.settings = None, {}

    def _root(self) -> SparkSession:
        if not self._prepared:
            prepare_warehouse(self.profile)
            self._prepared = True
        if spark_process.root is None:
            start = _start if self.profile.method == "session" else _join
            spark_process.root = start(self.profile)
            spark_process.settings = _wanted(self.profile)
        elif not self.started:
            raise _another_runs(self.profile)
        return spark_process.root


def prepare_warehouse(profile: Profile) -> None:
    """Make an embedded warehouse's directory and catalog where they don't exist yet.

    Safe while other processes do the same or use it. Raises CatalogError where it can't be read or written,
    or is locked for longer than `BUSY_TIMEOUT_SECONDS`.
    """
    file = profile.sqlite_file
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
        with closing(sqlite3.connect(file, timeout=BUSY_TIMEOUT_SECONDS)) as connection:
            connection.execute("pragma journal_mode=wal")
            for statement in _CATALOG_TABLES:
                connection.execute(statement)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(file, error) from error


def record_archive() -> Path:
    """Make the class-data archive that lets an embedded Spark start faster, where there is none yet.

    A Spark of its own runs a little of everything on a throw-away warehouse, in a process of its own, and
    its JVM writes down the classes it loaded. Where that fails, starts are slower and otherwise the same.
    """
    java, class_path = jars.find_java(), _class_path({})
    archive = jars.archive_path(java, class_path)
    if jars.recorded_archive(java, class_path):
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-", dir=archive.parent) as scratch:
        recorded = Path(scratch) / archive.name
        option = f"-XX:ArchiveClassesAtExit={shlex.quote(str(recorded))}"
        profile = Profile.embedded(
            Path(scratch) / "warehouse", master="local[2]", settings={"spark.driver.extraJavaOptions": option}
        )
        _rehearse(SparkEnvironment(profile))
        if recorded.exists():
            recorded.replace(archive)
    return archive


def start_spark(profile: Profile, more: Mapping[str, str]) -> Spark:
    """Starts a Spark in this process, which has none, for clients whose sessions bring the profile's catalog along."""
    prepare_warehouse(profile)
    own = f"spark.sql.catalog.{profile.catalog}"
    settings = {**profile.spark_settings(), **more}
    shared = {key: value for key, value in settings.items() if key != own and not key.startswith(f"{own}.")}
    del shared["spark.sql.defaultCatalog"]
    session = _start(profile, shared)
    assert spark_process.jvm is not None
    return Spark(session, spark_process.jvm, spark_process.log)


def _start(profile: Profile, wanted: Mapping[str, str] | None = None) -> SparkSession:
    settings = {**(profile.spark_settings() if wanted is None else wanted), **_jar_settings(profile)}
    if spark_process.gateway is None:
        spark_process.gateway = launch(settings) if profile.is_local else _submit(settings)
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # Left by a connection of this process, or of the one that started it, to a server; with it pyspark starts no Spark.
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    try:
        SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=spark_process.gateway)
    except Py4JJavaError as error:
        reason = str(error.java_exception).splitlines()[0]
        raise _did_not_start(reason, spark_process.log) from None
    return SparkSession.builder.getOrCreate()


def launch(settings: Mapping[str, str]) -> JavaGateway:
    """Start the JVM of an embedded Spark, import pyspark meanwhile, and attach to it."""
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-") as scratch, _new_log() as log:
        connection = Path(scratch) / "connection"
        jvm = spawn(settings, connection, log)
        import pyspark.sql  # noqa: F401
        from pyspark.java_gateway import launch_gateway

        port, secret = _connection(jvm, connection, Path(log.name))
        spark_process.jvm, spark_process.log = jvm, Path(log.name)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.update({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret})
        try:
            return launch_gateway()
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def _submit(settings: Mapping[str, str]) -> JavaGateway:
    """Start the driver by Spark's own scripts, which know how a cluster's master wants it."""
    from pyspark.java_gateway import launch_gateway

    os.environ.setdefault("JAVA_HOME", str(jars.find_java().executable.parent.parent))
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-") as scratch, _new_log() as log:
        spark_process.log = Path(log.name)
        before = os.environ.get(_SUBMIT_ARGUMENTS)
        options = {key: shlex.quote(of) for key, of in _options_by_file(settings, Path(scratch)).items()}
        ours = shlex.join(_by_file({**settings, **options}, Path(scratch)))
        os.environ[_SUBMIT_ARGUMENTS] = f"{ours} {before or 'pyspark-shell'}"
        try:
            gateway = launch_gateway(popen_kwargs={"stdout": log, "stderr": log})
        finally:
            os.environ.pop(_SUBMIT_ARGUMENTS)
            os.environ.update({} if before is None else {_SUBMIT_ARGUMENTS: before})
        spark_process.jvm = gateway.proc
        return gateway


def _options_by_file(settings: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The driver's Java options, each setting's in a file that Java reads when it starts."""
    given = {key: settings[key] for key in _JAVA_OPTIONS if settings.get(key)}
    files = {key: write_private(scratch / key, arguments_text(shlex.split(options))) for key, options in given.items()}
    return {key: f"@{file}" for key, file in files.items()}


def _by_file(settings: Mapping[str, str], scratch: Path) -> list[str]:
    """Arguments that give settings to `SparkSubmit` besides those of the machine's own `spark-defaults.conf`."""
    file = write_private(scratch / "spark.properties", properties_text(settings))
    return ["--load-spark-defaults", "--properties-file", str(file)]


def collector_options(settings: Mapping[str, str]) -> list[str]:
    """The garbage collector with the best throughput, unless the profile chooses one: a JVM takes only one."""
    chosen = re.search(r"-XX:\+Use\w*GC\b", " ".join(settings.get(key, "") for key in _JAVA_OPTIONS))
    return [] if chosen else ["-XX:+UseParallelGC"]


def spawn(settings: Mapping[str, str], connection: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """The JVM; it ends when this process ends, however that happens, because its standard input does."""
    java = jars.find_java()
    class_path = _class_path(settings)
    archive = jars.recorded_archive(java, class_path)
    command = [
        str(java.executable),
        "-cp",
        os.pathsep.join(class_path),
        f"-Xmx{settings.get('spark.driver.memory', '1g')}",
        *([f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive else []),
        *JVM_OPTIONS,
        *collector_options(settings),
        *_options_by_file(settings, connection.parent).values(),
        "org.apache.spark.deploy.SparkSubmit",
        *_by_file(_early(settings), connection.parent),
        "pyspark-shell",
    ]
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
    }
    # In a process group of its own, so that Ctrl-C doesn't end the JVM before dbt has cancelled its queries.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
    )


def _connection(jvm: subprocess.Popen[bytes], file: Path, log: Path) -> tuple[int, str]:
    """Port and secret that the JVM writes down once it listens."""
    deadline = time.monotonic() + START_SECONDS
    while not file.exists():
        if jvm.poll() is not None:
            raise _did_not_start(f"Java ended with code {jvm.returncode}", log)
        if time.monotonic() > deadline:
            jvm.kill()
            raise _did_not_start(f"no answer within {START_SECONDS:.0f} s", log)
        time.sleep(_POLL_SECONDS)
    content = file.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()


def _did_not_start(found: str, log: Path) -> ConfigError:
    lines = log.read_text(errors="replace").splitlines()
    said = "".join(f"\n    {line}" for line in lines[-30:] if not line.lstrip().startswith("at "))
    return ConfigError(
        f"Spark did not start.\n  where: {log}\n  expected: a Spark that answers\n  found: {found}{said}\n"
        "  what to do: if this names the memory or another setting, correct it in server_side_parameters"
    )


def _class_path(settings: Mapping[str, str]) -> list[str]:
    configured = settings.get("spark.driver.extraClassPath") or os.pathsep.join(map(str, jars.jar_paths()))
    directories = [os.environ.get(name, "") for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR")]
    return [configured, *filter(None, directories), str(spark_home() / "jars" / "*")]


def _jar_settings(profile: Profile) -> dict[str, str]:
    """An embedded Spark has the JARs on its class path, which starts faster; a cluster is sent them."""
    paths = [str(path) for path in jars.jar_paths()]
    name, separator = ("spark.driver.extraClassPath", os.pathsep) if profile.is_local else ("spark.jars", ",")
    return {name: separator.join([*paths, *filter(None, [profile.settings.get(name)])])}


def _early(settings: Mapping[str, str]) -> dict[str, str]:
    """What Spark acts on before it has a context; the rest is the context's, and ends with it."""
    return {key: value for key, value in settings.items() if key.startswith(_BEFORE_CONTEXT)}


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("pyspark is not installed; what to do: pip install 'pyspark[connect]>=4.1,<4.2'")
    return Path(spec.origin).parent


def _new_log() -> IO[bytes]:
    """What Spark and Hadoop print goes here and not between dbt's lines."""
    directory = jars.home() / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    jars.prune(directory, "spark-*.log", keep=_LOGS_KEPT)
    log = directory / f"spark-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    log.touch(mode=0o600)
    return log.open("ab")


def _join(profile: Profile) -> SparkSession:
    """Reaches a Spark Connect server, the one that is kept where the profile says so, and sees whether it will do."""
    kept = server.ensure(profile) if profile.is_kept else None
    url = kept.url if kept else profile.url or ""
    reach(url)
    session = _connect(url, {})
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    if ICEBERG_EXTENSIONS not in extensions:
        session.stop()
        raise ConfigError(
            f"The Spark Connect server can't be used.\n  where: {profile!r}\n"
            f"  expected: spark.sql.extensions has {ICEBERG_EXTENSIONS}\n  found: {extensions or 'none'}\n"
            "  what to do: start the server with that setting and with Iceberg's JAR, see docs/cluster.md"
        )
    spark_process.server, spark_process.log = url, Path(kept.log) if kept else Path()
    atexit.register(_release)
    return session


def reach(url: str) -> None:
    """Fails soon where nobody listens; pyspark itself would try for ten minutes."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or _CONNECT_PORT), _REACH_SECONDS).close()
    except OSError as error:
        raise ConfigError(
            f"No Spark Connect server answers.\n  where: {parts.hostname}:{parts.port or _CONNECT_PORT}\n"
            f"  expected: a server that listens\n  found: {error}\n"
            "  what to do: see whether it runs, and whether the profile's url is right"
        ) from error


def _connect(url: str, settings: Mapping[str, str]) -> SparkSession:
    """A session of its own on a server, given its SQL settings by one request; gives up soon where the server dies."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    lasting = fixed(settings)
    wanted: dict[str, bool | float | int | str | None] = {k: v for k, v in settings.items() if k not in lasting}
    session: SparkSession = SparkSession.builder.remote(url).config(map=wanted).create()
    patience = DefaultPolicy(max_retries=_RETRIES, max_backoff=_MOST_BACKOFF_MILLIS)
    cast(Any, session).client.set_retry_policies([patience])
    spark_process.lent.add(session)
    return session


def _release() -> None:
    """Ends this process' sessions on a server, if that is still there: none holds up the end of a run."""
    with suppress(Exception):
        if spark_process.lent:
            reach(spark_process.server)
        while spark_process.lent:
            spark_process.lent.pop().stop()


def _configured(session: SparkSession, has: Mapping[str, str], wanted: Mapping[str, str]) -> SparkSession:
    """Give a session the SQL settings that it lacks, and take away those it shouldn't have."""
    for key in sorted({*has, *wanted}):
        if key.startswith("spark.sql.") and has.get(key) != wanted.get(key):
            if key in wanted:
                session.conf.set(key, wanted[key])
            else:
                session.conf.unset(key)
    return session


def _wanted(profile: Profile) -> dict[str, str]:
    return {**profile.spark_settings(), METHOD: f"{profile.method} {profile.url or ''}".strip()}


def _another_runs(profile: Profile) -> ConfigError:
    running, wanted = fixed(spark_process.settings), fixed(_wanted(profile))
    changed = [key for key in sorted({*running, *wanted}) if running.get(key) != wanted.get(key)]
    there, here = (
        ", ".join(f"{key}={value}" for key, value in masked({k: side.get(k, "(unset)") for k in changed}).items())
        for side in (running, wanted)
    )
    return ConfigError(
        "Another profile's Spark runs in this process already.\n"
        f"  where: {profile!r}\n  expected: {here}\n  found: {there}\n"
        "  what to do: run the other target in a process of its own, or stop() the one that runs"
    )


def _unusable(file: Path, error: Exception) -> CatalogError:
    locked = "locked" in str(error)
    advice = (
        "another process has kept it locked; find it (`fuser` or `lsof` on that file) and let it end"
        if locked
        else "make the directory one that this user can write, or choose another warehouse in the profile"
    )
    return CatalogError(
        f"The embedded warehouse can't be used.\n  where: {file}\n"
        f"  expected: a directory and an SQLite database that can be read and written\n"
        f"  found: {error}\n  what to do: {advice}"
    )


def _rehearse(environment: SparkEnvironment) -> None:
    session = environment.session()
    for statement in _REHEARSAL:
        session.sql(statement).collect()
    frame = session.table("lake.rehearsal.t").where("id = 7")
    frame.writeTo("lake.rehearsal.t").option("snapshot-property.k", "v").append()
    assert spark_process.jvm is not None
    running = Spark(session, spark_process.jvm, spark_process.log)
    environment.stop()
    running.end()
