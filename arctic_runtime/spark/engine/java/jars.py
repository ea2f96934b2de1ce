"""Provides the files that Spark needs: an installed Java, JARs with fixed versions, and a class-data archive.

`python -m arctic_runtime.spark.jars` prepares all of it once; after that, starts find it in the cache directory
(`DBT_ARCTIC_HOME`, or else the user's own) and need no network. Arguments of the command name groups of further JARs to
prepare, such as `kafka`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import JARS_SETTING

JAVA_VERSIONS = (17, 21)
"""The versions of Java that Spark 4.1 supports."""

JAVA_OLDEST = 17
JAVA_NEWEST = 22
"""The oldest and the newest version of Java that Spark works with.

Hadoop needs a security manager, which newer versions lack."""

JAVA_COMMANDS = {
    "apt-get": "apt-get update && "
    "(apt-get install -y openjdk-17-jre-headless || apt-get install -y openjdk-21-jre-headless)",
    "dnf": "dnf install -y java-21-openjdk-headless",
    "yum": "yum install -y java-17-openjdk-headless",
    "zypper": "zypper --non-interactive install java-17-openjdk-headless",
    "pacman": "pacman -S --noconfirm jre17-openjdk-headless",
    "apk": "apk add openjdk17-jre-headless",
    "brew": "brew install openjdk@17",
}
JAVA_PLACES = (
    "/usr/lib/jvm/*/bin",
    "/usr/java/*/bin",
    "/opt/java/*/bin",
    "/opt/homebrew/opt/openjdk@*/bin",
    "/usr/local/opt/openjdk@*/bin",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home/bin",
    "~/.sdkman/candidates/java/*/bin",
)
"""The folders in which packages of Linux, Homebrew, macOS and SDKMAN install Java; PATH has one of them at most."""


_REASONS = re.compile(r"unresolved dependency|SERVER ERROR|Server access error|Caused by|Exception(?!ally)(?:[: ]|$)")
"""Lines of a download that say why it failed, among those that say where in the code."""

_JAVA_NEEDED = " or ".join(map(str, JAVA_VERSIONS))


LOOPBACK_ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1"}
"""Environment variables of a Spark that only this machine speaks to: it looks up no name of the machine.

Containers and laptops may have a name that no resolver knows, with which Spark doesn't start.
"""


@dataclass(frozen=True)
class Jar:
    """A JAR by its Maven coordinates, with the SHA-256 and the size in bytes of its file."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """The name of the JAR's file after Spark has downloaded it: group_artifact-version.jar."""
        return f"{self.group}_{self.artifact}-{self.version}.jar"


@dataclass(frozen=True)
class JarCheck:
    """Result of a check of one JAR: expected and actual SHA-256 of its file; `actual` is None without a file."""

    coordinates: str
    path: Path
    expected: str
    actual: str | None

    @property
    def ok(self) -> bool:
        return self.actual == self.expected


@dataclass(frozen=True)
class Java:
    """An installed Java: its executable, and its version, which is empty if it can't be read."""

    executable: Path
    version: str

    @property
    def major(self) -> int:
        """The first number of the version, such as 17; 8 for 1.8, and 0 if it can't be read."""
        number = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(number.group(1)) if number else 0


JARS = (
    Jar(
        group="org.apache.iceberg",
        artifact="iceberg-spark-runtime-4.1_2.13",
        version="1.12.0",
        sha256="3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
        size=48309426,
    ),
    Jar(
        group="org.xerial",
        artifact="sqlite-jdbc",
        version="3.54.1.0",
        sha256="f8dce420a6016278497f4f0560f65602b9db858de141b541cf91a4644ebe4639",
        size=12132578,
    ),
    Jar(
        group="com.globalmentor",
        artifact="hadoop-bare-naked-local-fs",
        version="0.1.0",
        sha256="e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
        size=9106,
    ),
)

GROUPS: Mapping[str, tuple[Jar, ...]] = MappingProxyType(
    {
        "aws": (
            Jar(
                group="org.apache.iceberg",
                artifact="iceberg-aws-bundle",
                version="1.12.0",
                sha256="dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
                size=69034612,
            ),
        ),
        "avro": (
            Jar(
                group="org.apache.spark",
                artifact="spark-avro_2.13",
                version="4.1.1",
                sha256="6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
                size=92354,
            ),
        ),
        "kafka": (
            Jar(
                group="org.apache.spark",
                artifact="spark-sql-kafka-0-10_2.13",
                version="4.1.1",
                sha256="9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c",
                size=491694,
            ),
            Jar(
                group="org.apache.spark",
                artifact="spark-token-provider-kafka-0-10_2.13",
                version="4.1.1",
                sha256="e510adc37b03d01d0a190d0dab472b5538e05eaa77454f7e9477156d7a6820ae",
                size=66579,
            ),
            Jar(
                group="org.apache.kafka",
                artifact="kafka-clients",
                version="3.9.1",
                sha256="7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
                size=9215194,
            ),
            Jar(
                group="org.apache.commons",
                artifact="commons-pool2",
                version="2.12.1",
                sha256="5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
                size=152289,
            ),
        ),
        "postgresql": (
            Jar(
                group="org.postgresql",
                artifact="postgresql",
                version="42.7.8",
                sha256="2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
                size=1116727,
            ),
        ),
    }
)
"""JARs that only some uses need, such as Kafka, by the name of their group; Spark contains their other dependencies."""

UNRECORDED: Mapping[str, str] = MappingProxyType(
    {
        "azure": "org.apache.iceberg:iceberg-azure-bundle:1.12.0",
        "gcs": "org.apache.iceberg:iceberg-gcp-bundle:1.12.0",
    }
)
"""JARs of groups that are not fetched, since no SHA-256 of theirs is recorded; users fetch them."""

_IN_SPARK = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "org.slf4j:slf4j-api",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
)


def get_cache_directory() -> Path:
    """Returns the path of the cache directory; its contents may be deleted at any time, and are then created again."""
    chosen = os.environ.get("DBT_ARCTIC_HOME")
    if chosen:
        return Path(os.path.abspath(Path(chosen).expanduser()))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dbt-arctic"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dbt-arctic"


def resolve_jar_paths(wanted: Sequence[Jar] | None = None) -> tuple[Path, ...]:
    """Returns the paths of the JARs `wanted`, by default `JARS`; downloads all if one is missing or has other bytes.

    A file is read when it is new or was written to since its SHA-256 was compared. Raises ConfigError if they can't be
    downloaded, or if a file does not have the recorded SHA-256.
    """
    wanted = JARS if wanted is None else wanted
    paths = tuple(_get_jar_path(jar) for jar in wanted)
    if not all(_is_verified(path, jar) for path, jar in zip(paths, wanted, strict=True)):
        _resolve_jars(wanted)
    return paths


def group_paths(settings: Mapping[str, str]) -> tuple[Path, ...]:
    """Returns the paths of the JARs whose groups are named in `settings`; downloads missing ones.

    Raises ConfigError for an unknown group, and if JARs can't be downloaded.
    """
    names = [name for part in settings.get(JARS_SETTING, "").split(",") if (name := part.strip())]
    for name in names:
        if name in UNRECORDED:
            raise ConfigError(
                f"Spark needs a JAR for {name} that is not fetched by itself.",
                where="server_side_parameters",
                expected=(
                    f"the file of {UNRECORDED[name]} in spark.driver.extraClassPath, or with a cluster in spark.jars"
                ),
                actual="none",
                fix=f"download {UNRECORDED[name]} from a Maven repository, and name its file there",
            )
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise ConfigError(f"{JARS_SETTING} names {', '.join(unknown)}; expected some of {', '.join(GROUPS)}")
    return tuple(path for name in names for path in resolve_jar_paths(GROUPS[name]))


def verify_jars() -> tuple[JarCheck, ...]:
    """Compares the SHA-256 of each JAR in `JARS` with the recorded one; downloads nothing and raises no error."""
    return tuple(
        JarCheck(jar.coordinates, _get_jar_path(jar), jar.sha256, _hash_file(_get_jar_path(jar))) for jar in JARS
    )


def find_java() -> Java:
    """Returns the Java that runs Spark: the first with a supported version, or else the first that works.

    Searches JAVA_HOME, the PATH and the usual system folders. Raises ConfigError, with the command that installs a
    Java, if there is none.
    """
    fitting: list[Java] = []
    others: list[Java] = []
    for java in list_installed_javas():
        if java.major in JAVA_VERSIONS:
            return java
        (fitting if JAVA_OLDEST <= java.major <= JAVA_NEWEST else others).append(java)
    if fitting:
        return fitting[0]
    raise _build_no_java_error(others)


def list_installed_javas() -> Iterator[Java]:
    """Yields each Java of this machine once: from JAVA_HOME, then the PATH, then the usual system folders."""
    home, path = os.environ.get("JAVA_HOME"), os.environ.get("PATH", os.defpath)
    places = [Path(home) / "bin"] if home else []
    places += [Path(place) for place in path.split(os.pathsep) if place]
    patterns = [str(Path(pattern).expanduser()) for pattern in JAVA_PLACES]
    places += [place for pattern in patterns for place in sorted(Path("/").glob(pattern[1:]))]
    seen = set[Path]()
    for place in places:
        executable = (place / "java").resolve()
        if executable not in seen and os.access(executable, os.X_OK) and executable.is_file():
            seen.add(executable)
            yield Java(executable, _read_java_version(executable))


def format_install_command() -> str:
    """Returns the command that installs a Java on this system, or advice if no package manager is known."""
    for manager, command in JAVA_COMMANDS.items():
        if shutil.which(manager):
            as_is = manager == "brew" or os.geteuid() == 0
            return command if as_is else f"sudo sh -c {shlex.quote(command)}"
    return f"install Java {_JAVA_NEEDED}, and set JAVA_HOME to it"


def install_java() -> None:
    """Tries to install Java by the system's package manager; returns even if the installation fails.

    Does nothing if there is no known package manager, or if its use needs a password.
    """
    manager = next(filter(shutil.which, JAVA_COMMANDS), None)
    if manager is None:
        return
    prefix = [] if manager == "brew" or os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and (not shutil.which("sudo") or subprocess.run(["sudo", "-n", "true"], check=False).returncode):
        return
    print(f"Installing Java: {JAVA_COMMANDS[manager]}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(
        [*prefix, "sh", "-c", JAVA_COMMANDS[manager]], stdin=subprocess.DEVNULL, env=environment, check=False
    )


def get_archive_path(java: Java, class_path: Sequence[str]) -> Path:
    """Returns the path of the class-data archive for this Java, class path and JARs; the file need not exist."""
    parts = [java.version, str(java.executable), *class_path, *(jar.sha256 for jar in JARS)]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return get_cache_directory() / "archives" / f"{key}.jsa"


def find_archive(java: Java, class_path: Sequence[str]) -> Path | None:
    """Returns the class-data archive for a Java and a class path, or None if there is none.

    Marks it as recently used, so that `prune_files` deletes others first.
    """
    archive = get_archive_path(java, class_path)
    with contextlib.suppress(OSError):
        os.utime(archive)
    return archive if archive.exists() else None


def prune_files(directory: Path, pattern: str, keep: int) -> None:
    """Deletes the least recently used files of `directory` that match `pattern`, until `keep` files are left.

    Several processes may do this at the same time.
    """
    files = [(path.stat().st_mtime, path) for path in directory.glob(pattern) if path.exists()]
    for _, path in sorted(files)[:-keep]:
        path.unlink(missing_ok=True)


def _get_jar_path(jar: Jar) -> Path:
    return get_cache_directory() / "jars" / jar.file_name


def _is_verified(path: Path, jar: Jar) -> bool:
    """Whether a file has the recorded SHA-256 of a JAR.

    A mark beside the file says for which size and time of its last change that was compared, since reading all JARs
    takes a third of a second.
    """
    try:
        status = path.stat()
        if status.st_size != jar.size:
            return False
        mark, state = path.with_suffix(".verified"), f"{jar.sha256} {status.st_size} {status.st_mtime_ns}"
        if mark.exists() and mark.read_text(encoding="utf-8") == state:
            return True
        if _hash_file(path) != jar.sha256:
            return False
        with contextlib.suppress(OSError):
            mark.write_text(state, encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return True


def _hash_file(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def _resolve_jars(wanted: Sequence[Jar]) -> None:
    """Lets Spark download JARs to a temporary directory, checks their SHA-256, and moves them to the cache.

    Moves are atomic and the contents are fixed, so several processes may do this at the same time. Raises ConfigError
    if a JAR is missing or differs.
    """
    target = get_cache_directory() / "jars"
    try:
        target.mkdir(parents=True, exist_ok=True)
        directory = tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-")
    except OSError as error:
        raise _build_resolve_error(
            wanted,
            f"the directory can't be written ({error.strerror})",
            fix=f"in an image, run `{_format_command(wanted)}` when it is built, by the build argument JARS of ours; "
            "elsewhere run it as a user who may write there",
        ) from error
    with directory as scratch:
        output = run_resolution(Path(scratch), wanted)
        for jar in wanted:
            resolved = Path(scratch) / "jars" / jar.file_name
            digest = _hash_file(resolved)
            if digest is None:
                raise _build_resolve_error(wanted, f"no {jar.coordinates}; Spark said:\n{output}")
            if digest != jar.sha256:
                raise _build_resolve_error(wanted, f"{jar.coordinates} with SHA-256 {digest} in place of {jar.sha256}")
            resolved.replace(_get_jar_path(jar))


def run_resolution(scratch: Path, wanted: Sequence[Jar]) -> str:
    """Starts a Spark that downloads the JARs `wanted` to `scratch`, then stops it; returns its last lines of output."""
    java = find_java()
    settings = {
        "spark.jars.packages": ",".join(jar.coordinates for jar in wanted),
        "spark.jars.excludes": ",".join(_IN_SPARK),
        "spark.jars.ivy": str(scratch),
        "spark.ui.enabled": "false",
    }
    program = (
        "import sys; from pyspark.sql import SparkSession; "
        "pairs = dict(pair.split('=', 1) for pair in sys.argv[1:]); "
        "SparkSession.builder.master('local[1]').config(map=pairs).getOrCreate().stop()"
    )
    arguments = [f"{key}={value}" for key, value in settings.items()]
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**LOOPBACK_ENVIRONMENT, **os.environ, "JAVA_HOME": str(java.executable.parent.parent)},
        text=True,
        check=False,
    )
    lines = [line for line in result.stdout.splitlines() if _REASONS.search(line)] or result.stdout.splitlines()
    return "\n".join(f"    {line.strip()}" for line in lines[-12:])


def _build_resolve_error(wanted: Sequence[Jar], reason: str, fix: str = "") -> ConfigError:
    return ConfigError(
        "The JARs that Spark needs could not be resolved.",
        where=f"{get_cache_directory() / 'jars'} (DBT_ARCTIC_HOME chooses another cache directory)",
        expected=f"{', '.join(jar.coordinates for jar in wanted)}, as recorded",
        actual=reason,
        fix=fix or f"run `{_format_command(wanted)}` once with access to a Maven repository",
    )


def _format_command(wanted: Sequence[Jar]) -> str:
    """Returns the command that fetches these JARs."""
    groups = [name for name, group in GROUPS.items() if set(group) & set(wanted)]
    return " ".join(["python -m arctic_runtime.spark.jars", *groups])


def _build_no_java_error(others: Sequence[Java]) -> ConfigError:
    """Builds the error for a machine without a Java that can run Spark; `others` are the unsuitable ones."""
    home = os.environ.get("JAVA_HOME")
    unsuitable = ", ".join(f"{java.version or 'no version'} at {java.executable}" for java in others) or "none"
    return ConfigError(
        f"{'No installed Java can run Spark' if others else 'Java is missing'}.",
        where=f"{f'JAVA_HOME={home}, ' if home else ''}PATH and the usual places",
        expected=(
            f"Java {_JAVA_NEEDED}: Spark needs {JAVA_OLDEST} at least, and does not start with one newer than "
            f"{JAVA_NEWEST}"
        ),
        actual=unsuitable,
        fix=f"{format_install_command()}; it can be installed beside another Java",
    )


def _read_java_version(executable: Path) -> str:
    """Reads the version of a Java from its file `release`, which is faster, or else runs `java -version`."""
    release = executable.parent.parent / "release"
    try:
        stated = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(), re.MULTILINE)
    except OSError:
        stated = None
    if stated:
        return stated.group(1)
    asked = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
    version_match = re.search(r'version "([^"]+)"', asked.stderr)
    return version_match.group(1) if version_match else ""
