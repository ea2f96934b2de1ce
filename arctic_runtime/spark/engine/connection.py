"""Connects to a Spark Connect server, and creates and ends sessions on it."""

from __future__ import annotations

import atexit
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import ICEBERG_EXTENSIONS, Profile, select_fixed_settings
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.warm_server import join_warm_server
from arctic_runtime.thresholds import EngineThresholds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CONNECT_PORT = 15002


def is_remote(session: SparkSession) -> bool:
    """Whether a session is on a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def join_server(profile: Profile) -> SparkSession:
    """Connects to the Spark Connect server of a profile, and returns a session on it.

    A server that the profile asks to keep on this machine is started if needed. Raises ConfigError if no server
    answers, or if the server lacks Iceberg's extensions.
    """
    thresholds = profile.thresholds.engine
    server_kept = _ensure_kept_server(profile)
    url = server_kept.url if server_kept else profile.url or ""
    if PROCESS.server_use is not None:
        url += f";user_id={PROCESS.server_use.name}"
    PROCESS.is_server_kept = server_kept is not None
    check_reachable(url, thresholds)
    session = connect_session(url, {}, thresholds)
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    if ICEBERG_EXTENSIONS not in extensions:
        end_session(session)
        raise ConfigError(
            "The Spark Connect server can't be used.",
            where=f"{profile!r}",
            expected=f"spark.sql.extensions has {ICEBERG_EXTENSIONS}",
            actual=extensions or "none",
            fix="start the server with that setting and with Iceberg's JAR, see docs/cluster.md",
        )
    PROCESS.server, PROCESS.log = url, Path(server_kept.log) if server_kept else Path()
    PROCESS.thresholds = thresholds
    atexit.register(release_sessions)
    return session


def _ensure_kept_server(profile: Profile) -> server.Server | None:
    if profile.keeps_warm:
        return join_warm_server(profile)
    return server.ensure_server(profile) if profile.is_kept else None


def check_reachable(url: str, thresholds: EngineThresholds) -> None:
    """Raises ConfigError if nothing listens at the address of `url`.

    It waits for the time in `thresholds`; pyspark by itself would retry for ten minutes.
    """
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "", parts.port or CONNECT_PORT)
        socket.create_connection(address, thresholds.connect_seconds).close()
    except OSError as error:
        raise ConfigError(
            "No Spark Connect server answers.",
            where=f"{parts.hostname}:{parts.port or CONNECT_PORT}",
            expected="a server that listens",
            actual=str(error),
            fix="check that the server runs and that `url` in the profile is right",
        ) from error


def connect_session(url: str, settings: Mapping[str, str], thresholds: EngineThresholds) -> SparkSession:
    """Creates a session on the server at `url`, and sets those of `settings` that can be set in a session.

    If the server dies, calls of the session fail after the time in `thresholds`, and within seconds if the server is
    kept on this machine; pyspark by itself would retry for ten minutes.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    lasting = select_fixed_settings(settings)
    wanted: dict[str, bool | float | int | str | None] = {k: v for k, v in settings.items() if k not in lasting}
    session: SparkSession = SparkSession.builder.remote(url).config(map=wanted).create()
    retries = thresholds.kept_server_retries if PROCESS.is_server_kept else thresholds.connect_retries
    patience = DefaultPolicy(max_retries=retries, max_backoff=thresholds.connect_backoff_millis)
    cast(Any, session).client.set_retry_policies([patience])
    disable_collector_close(session)
    PROCESS.lent.add(session)
    return session


def release_sessions() -> None:
    """Ends this process's sessions on a server; raises no error, and skips a server that is not reachable."""
    with suppress(Exception):
        if PROCESS.lent and PROCESS.thresholds is not None:
            check_reachable(PROCESS.server, PROCESS.thresholds)
        while PROCESS.lent:
            end_session(PROCESS.lent.pop())


def drop_connections() -> None:
    """Ends all requests of this process's sessions on a server with an error, and all later ones of these sessions."""
    for session in list(PROCESS.lent):
        cast(Any, session).client._channel.close()


def disable_collector_close(session: SparkSession) -> None:
    """Prevents that the garbage collector closes a session: only `end_session` does it from now on.

    pyspark closes a session when it is collected, which waits for threads that release results. The collector runs in
    any thread, also in one that holds a lock of gRPC which these threads wait for, and then all sessions of the process
    wait for ever. pyspark also keeps each client until the process exits, to send one more request then, for machine
    learning that nothing here uses; this is left out, so that the memory of a client is free after its session.
    """
    client = cast(Any, session).client
    client.close = _do_nothing
    if (clean_up := getattr(client, "_cleanup_ml_cache", None)) is not None:
        atexit.unregister(clean_up)


def end_session(session: SparkSession) -> None:
    """Ends a session, also on its server, and closes its channel; raises no error, since the server may have ended."""
    client = cast(Any, session).client
    vars(client).pop("close", None)
    with suppress(Exception):
        if not _is_reachable():
            client.close()  # Spark does not ask the server then, which it would retry.
        session.stop()
    client.close = _do_nothing


def is_on_server(session: SparkSession) -> bool:
    """Whether the server of a session still has it, which it has not after it was started again.

    True for a session that is on no server. If no server answers, raises no error, and returns False.
    """
    if not is_remote(session):
        return True
    from pyspark.errors import PySparkException

    try:
        return _is_reachable() and session.conf.get("spark.sql.session.timeZone") is not None
    except (PySparkException, AssertionError):
        return False


def _is_reachable() -> bool:
    """Whether something listens at the address of this process's server; True if it uses none."""
    if not PROCESS.server or PROCESS.thresholds is None:
        return True
    try:
        check_reachable(PROCESS.server, PROCESS.thresholds)
    except ConfigError:
        return False
    return True


def _do_nothing() -> None:
    """Takes the place of a client's `close`."""
