"""A Spark Connect server on this machine that keeps running between runs: one per user and catalog, for local clients.

It runs until it is stopped (`url: local`), or until no command has used it for a while (`keep_alive`). Each of the two
has a folder of its own.

The server is a process that holds a file lock as long as it lives, and that ends when the file with its address is
deleted. The address is valid only while the lock is held. A server is stopped by deletion of the file: no process is
killed by its id, which another process may have by then. Java ends with the server process, however that ends.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile, mask_secrets, select_fixed_settings
from arctic_runtime.spark.engine.java import jars
from arctic_runtime.spark.engine.java.state_directory import VARIABLE, get_state_directory
from arctic_runtime.thresholds import EngineThresholds

_ADDRESS = "server.json"
_LOCK = "lock"
_OUTPUT = "output.log"
SERVER_COMMAND = (sys.executable, "-m", "arctic_runtime.spark.engine.serve")
_READ_BY_SPARK = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_", "JAVA_", "JDK_", "LANG", "LC_", "PYSPARK_", "SPARK_", "TZ")
"""Prefixes of environment variables that Spark, Java, Hadoop or a store's client reads."""

# Variables of Spark Connect clients; pyspark starts no Spark if one of them is set.
_OF_CLIENTS = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE")


@dataclass(frozen=True)
class Server:
    """A running server: its process id, port and token, and its fixed Spark settings, with secrets masked.

    `since` is its start time, and `fingerprint` the `hash_profile` of its profile. It ends if it was not used for
    `keep_alive_seconds`; 0 means never.
    """

    pid: int
    port: int
    token: str
    since: str
    log: str
    settings: Mapping[str, str]
    fingerprint: str
    keep_alive_seconds: float = 0.0

    @property
    def url(self) -> str:
        return f"sc://localhost:{self.port}/;token={self.token}"

    def to_public_dict(self) -> dict[str, object]:
        """Returns the fields that may be shown to anybody, such as port and log; not the token."""
        limit = {"keep_alive_seconds": self.keep_alive_seconds} if self.keep_alive_seconds else {}
        return {"pid": self.pid, "port": self.port, "since": self.since, "log": self.log, **limit}

    def __repr__(self) -> str:
        return f"Server(pid={self.pid}, port={self.port})"


def get_directory(profile: Profile) -> Path:
    """Returns the directory with the lock and the address file of this user's server for the profile's catalog."""
    place = [profile.catalog, *(profile.catalog_properties.get(key, "") for key in ("type", "uri", "warehouse"))]
    place += ["keep_alive"] if profile.method == "session" else []
    key = hashlib.sha256("\0".join(place).encode()).hexdigest()[:16]
    return get_state_directory() / "servers" / f"{os.getuid()}-{key}"


def find_server(profile: Profile) -> Server | None:
    """Returns the running server for the profile's catalog; None if there is none, or if it is not ready yet."""
    directory = get_directory(profile)
    return _read_server(directory / _ADDRESS) if is_held(directory, profile.thresholds.engine) else None


def ensure_server(profile: Profile) -> Server:
    """Returns the server for the profile's catalog; starts one if none runs.

    Raises ConfigError if it can't be started, or if it runs with other settings than the profile's.
    """
    server = find_server(profile) or start_server(profile)
    if server.fingerprint != hash_profile(profile):
        raise _build_settings_conflict(server, profile)
    return server


def stop_server(profile: Profile) -> Server | None:
    """Ends the server for the profile's catalog, waits until it has ended, and returns it; None if there was none.

    Raises ConfigError if it does not end in time.
    """
    directory, thresholds = get_directory(profile), profile.thresholds.engine
    server, seconds = find_server(profile), thresholds.server_stop_seconds

    def is_gone() -> bool:
        withdraw_address(directory)
        return _is_free(directory, thresholds)

    if not _wait_for(is_gone, seconds, thresholds.server_poll_seconds) and server is not None:
        raise ConfigError(
            f"The Spark server did not end within {seconds:.0f} s.",
            where=f"process {server.pid}, {directory}",
            expected="the process ends after the stop request",
            actual="the process still runs",
            fix=f"look into {server.log}, or end the process with `kill {server.pid}`",
        )
    return server


def hash_profile(profile: Profile) -> str:
    """Computes a hash that is equal for all profiles that one running server can serve.

    It is computed from the settings that can't be changed while Spark runs, including secrets, and from the versions of
    PySpark and the JARs. A Spark that is kept in the place of an embedded one also has the same SQL settings, working
    folder, Python and environment variables as that one would have.
    """
    from importlib.metadata import version

    settings = sorted(select_fixed_settings(profile.started.build_spark_settings()).items())
    made_of = [f"pyspark {version('pyspark')}", *(jar.coordinates for jar in jars.JARS)]
    here = _list_surroundings(profile) if profile.keeps_warm else []
    return hashlib.sha256(json.dumps([settings, made_of, *here]).encode()).hexdigest()


def _list_surroundings(profile: Profile) -> list[object]:
    """Lists what an embedded Spark takes over from its process, and what its sessions do not set themselves."""
    names = sorted(name for name in os.environ if name.startswith(_READ_BY_SPARK) and name not in _OF_CLIENTS)
    variables = [(name, os.environ[name]) for name in names]
    return [
        sorted(profile.settings.items()),
        sys.prefix,
        sys.version,
        str(Path.cwd()),
        variables,
        profile.keep_alive_seconds,
    ]


def publish_server(directory: Path, server: Server) -> None:
    """Writes the address file of a server that is ready; only this user can read it, since it contains the token."""
    made = directory / f"{_ADDRESS}.{server.pid}"
    made.unlink(missing_ok=True)
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(asdict(server), stream)
    made.replace(directory / _ADDRESS)


def is_wanted(directory: Path, server: Server) -> bool:
    """Whether the address file still is this server's; it is deleted to stop the server."""
    return _read_server(directory / _ADDRESS) == server


def withdraw_address(directory: Path) -> None:
    """Deletes the address of the server in `directory`, which asks the server to end."""
    (directory / _ADDRESS).unlink(missing_ok=True)


def wait_for_end(directory: Path, thresholds: EngineThresholds) -> bool:
    """Waits until the server in `directory` has ended; returns False if it takes longer than `server_end_seconds`."""
    is_gone = functools.partial(_is_free, directory, thresholds)
    return _wait_for(is_gone, thresholds.server_end_seconds, thresholds.server_poll_seconds)


def _is_free(directory: Path, thresholds: EngineThresholds) -> bool:
    return not is_held(directory, thresholds)


def acquire_server_lock(directory: Path, thresholds: EngineThresholds) -> FileLock | None:
    """Takes the lock that only one server of a catalog can hold, until this process ends; None if another has it.

    It tries for some seconds, since clients also take the lock for a moment, to check whether a server lives. It stops
    trying if a server is ready, since that server keeps the lock. Deletes the address file of a server that was killed.
    """
    lock = FileLock(directory / _LOCK)

    def is_settled() -> bool:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return (directory / _ADDRESS).exists()
        withdraw_address(directory)
        return True

    _wait_for(is_settled, thresholds.server_lock_seconds, thresholds.server_poll_seconds)
    return lock if lock.is_locked else None


def is_held(directory: Path, thresholds: EngineThresholds) -> bool:
    """Whether a living process, the server, holds the lock in `directory`."""
    file, seconds = directory / _LOCK, thresholds.server_probe_seconds
    if not file.exists():
        return False
    try:
        with FileLock(file).acquire(timeout=seconds, poll_interval=seconds / 10):
            return False
    except Timeout:
        return True
    except OSError:
        return False


def _read_server(address: Path) -> Server | None:
    try:
        return Server(**json.loads(address.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def start_server(profile: Profile, spawned: subprocess.Popen[bytes] | None = None) -> Server:
    """Starts a server process, and waits until it, or a server that another process has started, is ready.

    `spawned` is the process of an earlier `spawn_server`, if there was one. A server process that finds the lock taken
    ends without an error; if the process with the lock has ended as well, a new one is started. Raises ConfigError if
    no server is ready in time, or if the process fails.
    """
    directory, thresholds = get_directory(profile), profile.thresholds.engine
    make_directory(directory)
    child = spawned or spawn_server(profile, directory)
    deadline = time.monotonic() + thresholds.server_start_seconds
    while time.monotonic() < deadline:
        if server := find_server(profile):
            return server
        if child.poll() is not None and not is_held(directory, thresholds):
            if child.returncode:
                break
            child = spawn_server(profile, directory)
        time.sleep(thresholds.server_poll_seconds)
    raise _build_start_error(directory, thresholds)


def spawn_server(profile: Profile, directory: Path) -> subprocess.Popen[bytes]:
    """Starts the server process, which outlives this process.

    The profile is passed to its standard input, which no other user can read.
    """
    started = profile.started
    wanted = {
        "catalog": started.catalog,
        "catalog_properties": dict(started.catalog_properties),
        "master": started.master,
        "settings": dict(started.settings),
        "keep_alive_seconds": started.keep_alive_seconds,
    }
    environment = {key: value for key, value in os.environ.items() if key not in _OF_CLIENTS}
    root = str(Path(__file__).parents[3])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    with (directory / _OUTPUT).open("wb") as output:
        child = subprocess.Popen(
            [*SERVER_COMMAND, str(directory)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    assert child.stdin is not None
    with suppress(BrokenPipeError), child.stdin as stream:
        stream.write(json.dumps(wanted).encode())
    return child


def make_directory(directory: Path) -> None:
    """Creates the folder of a server; raises ConfigError if it belongs to another user."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise ConfigError(
            "The folder of the Spark server belongs to another user.",
            where=str(directory),
            expected=f"owned by user {os.getuid()}",
            actual=f"owned by user {directory.stat().st_uid}",
            fix=f"set {VARIABLE} to a folder of your own",
        )


def _wait_for(condition: Callable[[], bool], seconds: float, poll_seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (is_met := condition()) and time.monotonic() < deadline:
        time.sleep(poll_seconds)
    return is_met


def _build_settings_conflict(server: Server, profile: Profile) -> ConfigError:
    wanted = mask_secrets(select_fixed_settings(profile.started.build_spark_settings()))
    keys = [key for key in sorted({*wanted, *server.settings}) if wanted.get(key) != server.settings.get(key)]
    there, here = (
        ", ".join(f"{key}={side.get(key, '(unset)')}" for key in keys) or "as it was started"
        for side in (server.settings, wanted)
    )
    return ConfigError(
        f"The background Spark server of catalog {profile.catalog} was started with other settings.",
        where=f"process {server.pid}, since {server.since}",
        expected=here,
        actual=there,
        fix="run `arctic spark stop`; the next run starts the server with the settings of the profile",
    )


def _build_start_error(directory: Path, thresholds: EngineThresholds) -> ConfigError:
    output = directory / _OUTPUT
    lines = output.read_text(errors="replace").splitlines() if output.exists() else []
    log_lines = "".join(f"\n    {line}" for line in lines[-30:])
    return ConfigError(
        "The Spark server did not start.",
        where=str(output),
        expected=f"a server that is ready within {thresholds.server_start_seconds:.0f} s",
        actual=f"none{log_lines}",
        fix="if the error names memory or another setting, correct it in server_side_parameters",
    )
