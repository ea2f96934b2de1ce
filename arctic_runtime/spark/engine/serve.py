"""The process of a kept Spark Connect server: `python -m arctic_runtime.spark.engine.serve FOLDER < PROFILE`."""

from __future__ import annotations

import datetime
import json
import os
import random
import secrets
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.profile import Profile, mask_secrets, select_fixed_settings
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.java.process import PROCESS, Spark
from arctic_runtime.spark.engine.server import Server
from arctic_runtime.spark.engine.session import start_spark
from arctic_runtime.spark.engine.warm_server import IdleTimer, find_uses, measure_free_memory, open_door
from arctic_runtime.thresholds import EngineThresholds

_PORTS = (16_000, 32_000)
"""The range of ports for servers.

It is below the ports that systems use for outgoing connections, many of which are opened until Spark listens."""

_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"


def main(directory: Path, wanted: Mapping[str, object]) -> int:
    """Runs a Spark Connect server until its address file is deleted, Java ends or no command uses it for long.

    Does nothing if a server runs already. `directory` has the server's lock and address file, `wanted` the fields of
    its profile. Returns the exit code of the process.
    """
    profile = Profile(**wanted)  # type: ignore[arg-type]
    thresholds = profile.thresholds.engine
    lock = server.acquire_server_lock(directory, thresholds)
    if lock is None:
        return 0
    port, token = _find_free_port(), secrets.token_urlsafe(32)
    fingerprint = server.hash_profile(profile)  # Before Spark's start, which sets environment variables.
    PROCESS.is_lasting = True
    try:
        spark = start_spark(profile, _build_server_settings(profile, port, token))
    except ArcticError as error:
        print(error, file=sys.stderr)
        return 2
    ready = _describe_server(profile, spark, port, token, fingerprint)
    server.publish_server(directory, ready)
    timer = IdleTimer(profile.keep_alive_seconds, time.monotonic, thresholds.idle_server_free_bytes)
    while spark.is_alive() and server.is_wanted(directory, ready):
        if not (profile.keeps_warm and end_if_idle(directory, ready, timer, thresholds, _close_sessions)):
            time.sleep(thresholds.server_watch_seconds)
    spark.end_java(thresholds)
    return 0


def end_if_idle(
    directory: Path,
    ready: Server,
    timer: IdleTimer,
    thresholds: EngineThresholds,
    close_sessions: Callable[[Collection[str]], None],
) -> bool:
    """Withdraws the server's address if no command has used it for long; returns whether it did.

    Calls `close_sessions` with the names of the uses that have ended since the last call. If the door is held for long,
    the next call looks again.
    """
    with suppress(ConfigError), open_door(directory, thresholds):
        uses = find_uses(directory, ready.fingerprint)
        if uses.ended:
            close_sessions(uses.ended)
        if timer.is_over(uses.is_any, measure_free_memory()):
            server.withdraw_address(directory)
            return True
    return False


def _close_sessions(users: Collection[str]) -> None:
    """Ends the sessions of commands that have ended, and the work in them, such as that of a command that was killed.

    Spark by itself would go on with it for minutes, and keep a session for an hour.
    """
    from py4j.protocol import Py4JError

    assert PROCESS.gateway is not None
    service = PROCESS.gateway.jvm.org.apache.spark.sql.connect.service
    manager = getattr(getattr(service, "SparkConnectService$"), "MODULE$").sessionManager()
    with suppress(Py4JError):  # A session may end meanwhile.
        sessions = manager.listActiveSessions()
        for session in [sessions.apply(position) for position in range(sessions.size())]:
            if session.userId() in users:
                manager.closeSession(session.key(), False)


def _find_free_port() -> int:
    """Returns a random free port; if another process takes it before Spark does, Spark fails to start."""
    while True:
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as asked, suppress(OSError):
            asked.bind(("127.0.0.1", port))
            return port


def _build_server_settings(profile: Profile, port: int, token: str) -> dict[str, str]:
    others = [name for name in profile.settings.get("spark.plugins", "").split(",") if name]
    return {
        "spark.plugins": ",".join([_PLUGIN, *others]),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
    }


def _describe_server(profile: Profile, spark: Spark, port: int, token: str, fingerprint: str) -> Server:
    now = datetime.datetime.now().astimezone()
    return Server(
        pid=os.getpid(),
        port=port,
        token=token,
        since=now.isoformat(timespec="seconds"),
        log=str(spark.log),
        settings=mask_secrets(select_fixed_settings(profile.build_spark_settings())),
        fingerprint=fingerprint,
        keep_alive_seconds=profile.keep_alive_seconds,
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.load(sys.stdin)))
