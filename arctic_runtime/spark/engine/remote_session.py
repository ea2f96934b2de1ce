"""Sessions on a Spark Connect server: their end, and what Python's garbage collector must not do to them."""

from __future__ import annotations

import atexit
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_remote(session: SparkSession) -> bool:
    """Whether a session is on a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


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
        session.stop()
    client.close = _do_nothing


def _do_nothing() -> None:
    """Takes the place of a client's `close`."""
