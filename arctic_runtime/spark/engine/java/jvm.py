"""Starts the JVM of a Spark in this process.

An embedded Spark is started without Spark's shell scripts. So there is one JVM instead of two, its output is not on the
terminal, no setting is on a command line that other users can read, and pyspark is imported while the JVM starts.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import JARS_SETTING, Profile
from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.java.state_directory import VARIABLE, get_state_directory
from arctic_runtime.thresholds import EngineThresholds

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_BEFORE_CONTEXT = ("spark.jars", "spark.files", "spark.archives", "spark.submit.")
# The packages that Spark's own launcher opens, without the incubator module that makes every JVM print a warning.
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

_AVRO_LIMITS = (
    *(f"-Dorg.apache.avro.limits.{kind}.maxLength={64 << 20}" for kind in ("bytes", "string")),
    f"-Dorg.apache.avro.limits.collectionItems.maxLength={10_000_000}",
)
"""Limits of values in Avro, which reserves memory for as many bytes as a value says that it has.

A broken message of Kafka, which is a dead letter, could end Java otherwise."""

_SMALL_HEAP = (
    "-XX:+UseAdaptiveSizePolicyWithSystemGC",
    "-XX:MinHeapFreeRatio=50",
    "-XX:MaxHeapFreeRatio=60",
    "-XX:-UsePSAdaptiveSurvivorSizePolicy",
    "-XX:SoftRefLRUPolicyMSPerMB=50",
)
"""Options that keep the heap of a Spark small that runs for days; it requests a full collection now and then.

After a full collection, free space of the old generation beyond 60% is returned to the system, and soft caches are
dropped if they were not used for some minutes. With less than 50% free, Java would run a full collection each time that
the young generation is full. The survivor space stays an eighth of the young generation: Java would shrink it, and move
garbage of the next busy moment to the old generation.
"""

_OPTIMIZED_CALLS = {
    "Tier4InvocationThreshold": 5_000,
    "Tier4MinInvocationThreshold": 600,
    "Tier4CompileThreshold": 15_000,
    "Tier4BackEdgeThreshold": 40_000,
}
"""Java's default numbers of calls and of iterations after which its optimizing compiler compiles a method."""

_COMPILER_OPTION = re.compile(r"-XX:[+-]?(?:Tiered|Tier\d|Compilation)|-X(?:int|comp|mixed)\b")

_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
"""Exponents of two by the units of memory sizes in Spark's settings, such as 20 for `m`."""

LASTING_SETTINGS: Mapping[str, str] = {
    "spark.cleaner.periodicGC.interval": "1min",
    "spark.sql.shuffleExchange.maxThreadThreshold": "64",
    "spark.sql.resultQueryStage.maxThreadThreshold": "64",
    "spark.sql.broadcastExchange.maxThreadThreshold": "64",
}
"""Settings of a Spark that runs for days: how often it requests a full garbage collection, and how many threads it has.

The collection also removes broadcasts and shuffles of finished queries. A broadcast is kept until the collection after
the one that finds it unused, and has a megabyte for however few rows. A busy service makes six of them a second, so the
heap follows the interval. A pool starts another thread for each task, though others are idle, until it has its most; by
default that is 1,024 threads for two of these pools. A thread that waits for another of the same pool belongs to a
query that runs, and there are fewer queries than threads by far.
"""

_LASTING_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Environment variables of a Spark that runs for days, by which the C library returns more freed memory to the system.
"""
_SEPARATORS = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
_KEY_ESCAPES = {**_SEPARATORS, " ": r"\ ", "=": r"\=", ":": r"\:", "#": r"\#", "!": r"\!"}
_IN_QUOTES = {**_SEPARATORS, '"': r"\""}


def launch_jvm(settings: Mapping[str, str], thresholds: EngineThresholds) -> JavaGateway:
    """Starts the JVM of an embedded Spark, and returns py4j's gateway to it; imports pyspark meanwhile.

    Raises ConfigError if the JVM does not start.
    """
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-") as scratch, open_log(thresholds) as log:
        connection = Path(scratch) / "connection"
        jvm = spawn_jvm(settings, connection, log, thresholds)
        import pyspark.sql  # noqa: F401
        from pyspark.java_gateway import launch_gateway

        port, secret = _wait_for_connection(jvm, connection, Path(log.name), thresholds)
        PROCESS.jvm, PROCESS.log = jvm, Path(log.name)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.update({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret})
        try:
            gateway = launch_gateway()
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    if (user := _name_unknown_user()) is not None:
        users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(user))
    return gateway


def _name_unknown_user() -> str | None:
    """Returns a name for the user of this process if the system has none; a container may run as any number."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return f"user-{os.getuid()}"
    return None


def submit_driver(settings: Mapping[str, str], thresholds: EngineThresholds) -> JavaGateway:
    """Starts the driver by Spark's own scripts, which support all cluster masters.

    Returns py4j's gateway to its JVM.
    """
    from pyspark.java_gateway import launch_gateway

    os.environ["JAVA_HOME"] = str(jars.find_java().executable.parent.parent)
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-") as scratch, open_log(thresholds) as log:
        PROCESS.log = Path(log.name)
        before = os.environ.get(_SUBMIT_ARGUMENTS)
        options = {key: shlex.quote(value) for key, value in _write_option_files(settings, Path(scratch)).items()}
        ours = shlex.join(_write_properties_file({**settings, **options}, Path(scratch)))
        os.environ[_SUBMIT_ARGUMENTS] = f"{ours} {before or 'pyspark-shell'}"
        try:
            gateway = launch_gateway(popen_kwargs={"stdout": log, "stderr": log})
        finally:
            os.environ.pop(_SUBMIT_ARGUMENTS)
            os.environ.update({} if before is None else {_SUBMIT_ARGUMENTS: before})
        PROCESS.jvm = gateway.proc
        return gateway


def _write_option_files(settings: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Writes the driver's Java options to files in `scratch`, one per setting.

    Returns the setting's new value, `@FILE`, for each of these settings.
    """
    java_options = {key: settings[key] for key in _JAVA_OPTIONS if settings.get(key)}
    files = {
        key: write_private(scratch / key, format_arguments(shlex.split(options)))
        for key, options in java_options.items()
    }
    return {key: f"@{file}" for key, file in files.items()}


def _write_properties_file(settings: Mapping[str, str], scratch: Path) -> list[str]:
    """Writes settings to a file in `scratch`, and returns the arguments by which `SparkSubmit` reads it.

    They override `spark-defaults.conf`.
    """
    file = write_private(scratch / "spark.properties", format_properties(settings))
    return ["--load-spark-defaults", "--properties-file", str(file)]


def choose_collector_options(
    settings: Mapping[str, str], lasting: EngineThresholds | None = None, few_rows: bool = False
) -> list[str]:
    """Returns Java options that choose the garbage collector with the best throughput; none if the settings choose one.

    `lasting` has the thresholds of a Spark that runs for days, whose heap is kept small; None for any other Spark. With
    `few_rows` there is little garbage, and it costs less without further threads.
    """
    chosen = re.search(
        r"-XX:\+Use(?:Serial|Parallel|G1|Z|Shenandoah|Epsilon)GC\b",
        " ".join(settings.get(key, "") for key in _JAVA_OPTIONS),
    )
    if chosen:
        return []
    if few_rows:
        return ["-XX:+UseSerialGC"]
    return ["-XX:+UseParallelGC", *(_choose_heap_options(settings, lasting) if lasting else ())]


def choose_compiler_options(settings: Mapping[str, str], few_rows: bool, thresholds: EngineThresholds) -> list[str]:
    """Returns Java options by which the optimizing compiler does not compile code that runs for a minute only.

    A command that reads `few_rows` is over before the compiled code has gained the time that the compiler takes, so it
    has the first compiler only; for others the optimizing compiler starts later than by default. None if the settings
    have options of the compilers.
    """
    if _COMPILER_OPTION.search(" ".join(settings.get(key, "") for key in _JAVA_OPTIONS)):
        return []
    if few_rows:
        return ["-XX:TieredStopAtLevel=1"]
    return [f"-XX:{name}={calls * thresholds.optimizer_delay}" for name, calls in _OPTIMIZED_CALLS.items()]


def _choose_heap_options(settings: Mapping[str, str], thresholds: EngineThresholds) -> list[str]:
    """Returns Java options that keep the heap small, and the young generation a fixed share of it.

    Without them Java fills a third of the heap with garbage before it collects any.
    """
    size = re.fullmatch(r"(\d+)([kmgt]?)b?", settings.get("spark.driver.memory", "1g").strip().lower())
    if size is None:
        return list(_SMALL_HEAP)
    young = int((int(size[1]) << _SHIFTS[size[2]]) * thresholds.new_objects_share)
    return [*_SMALL_HEAP, f"-Xmn{young}", f"-Xms{2 * young}"]


def spawn_jvm(
    settings: Mapping[str, str], connection: Path, log: IO[bytes], thresholds: EngineThresholds
) -> subprocess.Popen[bytes]:
    """Starts the JVM process with its output in `log`; it writes its address to the file `connection` when it listens.

    It ends when this process ends, in whatever way, because its standard input is closed then.
    """
    java, user = jars.find_java(), _name_unknown_user()
    classes = list_class_path(settings)
    archive = jars.find_archive(java, classes)
    rows = PROCESS.count_rows()
    few_rows = rows is not None and rows <= thresholds.few_rows
    command = [
        str(java.executable),
        "-cp",
        os.pathsep.join([*classes, *map(str, jars.group_paths(settings))]),
        f"-Xmx{settings.get('spark.driver.memory', '1g')}",
        *([f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive else []),
        *JVM_OPTIONS,
        # Java asks the system for it, which knows no home of a user without a name.
        f"-Duser.home={Path.home()}",
        *(_AVRO_LIMITS if "avro" in settings.get(JARS_SETTING, "") else ()),
        *choose_collector_options(settings, thresholds if PROCESS.is_lasting else None, few_rows),
        *choose_compiler_options(settings, few_rows, thresholds),
        *_write_option_files(settings, connection.parent).values(),
        "org.apache.spark.deploy.SparkSubmit",
        *_write_properties_file(_select_early_settings(settings), connection.parent),
        "pyspark-shell",
    ]
    environment = {
        **(_LASTING_ENVIRONMENT if PROCESS.is_lasting else {}),
        **(jars.LOOPBACK_ENVIRONMENT if settings.get("spark.driver.host") == "127.0.0.1" else {}),
        **({} if user is None else {"SPARK_USER": user}),
        **os.environ,
        "SPARK_HOME": str(find_spark_home()),
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
    }
    # In a process group of its own, so that Ctrl-C doesn't end the JVM before dbt has cancelled its queries.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
    )


def _wait_for_connection(
    jvm: subprocess.Popen[bytes], file: Path, log: Path, thresholds: EngineThresholds
) -> tuple[int, str]:
    """Waits until the JVM has written its address to `file`; returns the port and the secret.

    Raises ConfigError, with the end of `log`, if Java ends or does not answer in time.
    """
    deadline = time.monotonic() + thresholds.jvm_start_seconds
    while not file.exists():
        if jvm.poll() is not None:
            raise build_start_error(f"Java ended with code {jvm.returncode}", log)
        if time.monotonic() > deadline:
            jvm.kill()
            raise build_start_error(f"no answer within {thresholds.jvm_start_seconds:.0f} s", log)
        time.sleep(thresholds.jvm_start_poll_seconds)
    content = file.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()


def build_start_error(reason: str, log: Path) -> ConfigError:
    lines = log.read_text(errors="replace").splitlines()
    log_text = "".join(f"\n    {line}" for line in lines[-30:] if not line.lstrip().startswith("at "))
    return ConfigError(
        "Spark did not start.",
        where=str(log),
        expected="Spark answers",
        actual=f"{reason}{log_text}",
        fix="if the error names memory or another setting, correct it in server_side_parameters",
    )


def list_class_path(settings: Mapping[str, str]) -> list[str]:
    configured = settings.get("spark.driver.extraClassPath") or os.pathsep.join(map(str, jars.resolve_jar_paths()))
    directories = [os.environ.get(name, "") for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR")]
    return [configured, *filter(None, directories), str(find_spark_home() / "jars" / "*")]


def build_jar_settings(profile: Profile) -> dict[str, str]:
    """Builds the setting by which Spark gets its JARs: for an embedded Spark the class path, else `spark.jars`.

    An embedded Spark starts faster with a class path. Its setting does not include groups of further JARs: `spawn_jvm`
    puts these last on the class path, so that the class-data archive is valid with and without them.
    """
    paths = map(str, find_jars(() if profile.is_local else profile.jar_groups))
    name, separator = ("spark.driver.extraClassPath", os.pathsep) if profile.is_local else ("spark.jars", ",")
    return {name: separator.join([*paths, *filter(None, [profile.settings.get(name)])])}


def find_jars(groups: Iterable[str]) -> tuple[Path, ...]:
    """Finds the JARs that every Spark needs, and those of `groups`; downloads missing ones.

    Raises ConfigError if one can't be downloaded.
    """
    return *jars.resolve_jar_paths(), *jars.group_paths({JARS_SETTING: ",".join(groups)})


def _select_early_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Selects the settings that Spark reads before it has a context; all others can be set on the context."""
    return {key: value for key, value in settings.items() if key.startswith(_BEFORE_CONTEXT)}


def find_spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("pyspark is not installed.", fix="pip install 'pyspark[connect]>=4.1,<4.2'")
    return Path(spec.origin).parent


def open_log(thresholds: EngineThresholds) -> IO[bytes]:
    """Opens a new log file for the output of Spark and Hadoop, to keep it apart from dbt's; deletes the oldest logs.

    If the state directory can't be written, the file is in the folder for temporary files, and the user learns it.
    """
    directory = get_state_directory() / "logs"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        jars.prune_files(directory, "spark-*.log", keep=thresholds.kept_logs)
        log = directory / f"spark-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        log.touch(mode=0o600)
        return log.open("ab")
    except OSError as error:
        handle, path = tempfile.mkstemp(prefix="spark-", suffix=".log")
        reason = error.strerror or str(error)
        PROCESS.report(
            f"{directory} can't be written ({reason}), so Spark's log is {path}; {VARIABLE} sets another folder"
        )
        os.close(handle)
        return Path(path).open("ab")


def write_private(file: Path, text: str) -> Path:
    """Writes a file that only this user can read, and returns its path; raises FileExistsError if it exists."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
    return file


def format_properties(settings: Mapping[str, str]) -> str:
    """Formats settings as the text of a file for `spark-submit --properties-file`."""
    return "".join(
        f"{_escape_text(key, _KEY_ESCAPES)}={_escape_text(value, _SEPARATORS)}\n" for key, value in settings.items()
    )


def format_arguments(arguments: Sequence[str]) -> str:
    """Formats command-line arguments as the text of a file for `java @FILE`."""
    return "".join(f'"{_escape_text(argument, _IN_QUOTES)}"\n' for argument in arguments)


def _escape_text(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
