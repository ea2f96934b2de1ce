"""Watches whether a source answers while it is ingested, however long a batch takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from arctic_runtime.errors import ArcticError
from arctic_runtime.ingest.transports.transport import Probe, ProbesSource, Transport

NoteAnswer = Callable[[str, str], None]
"""Function that is called with the error of a probe and with that of the last one; each is empty for an answer."""


def watch_source(transport: Transport, note: NoteAnswer) -> AbstractContextManager[None]:
    """Probes the source in a thread until the context ends, if its transport can be probed."""
    return _watch_probes(transport, note) if isinstance(transport, ProbesSource) else nullcontext()


@contextmanager
def _watch_probes(transport: ProbesSource, note: NoteAnswer) -> Iterator[None]:
    ended, probe = threading.Event(), transport.open_probe()
    pause = transport.probe_seconds
    thread = threading.Thread(target=_probe_until_ended, args=(probe, pause, note, ended), name="probe", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _probe_until_ended(probe: Probe, pause_seconds: float, note: NoteAnswer, ended: threading.Event) -> None:
    last = ""
    try:
        while not ended.wait(pause_seconds):
            error = _find_error(probe)
            if (error or last) and not ended.is_set():
                note(error, last)
            last = error
    finally:
        probe.close_probe()


def _find_error(probe: Probe) -> str:
    """Returns the reason why the source does not answer; empty if it does."""
    try:
        probe.check_answer()
    except ArcticError as error:
        return str(error)
    return ""
