"""Watches whether a source answers and sends rows while it is ingested, however long a batch takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from arctic_runtime.errors import ArcticError
from arctic_runtime.ingest.transports.transport import Probe, ProbesSource, Transport

NoteAnswer = Callable[[str, str], None]
"""Function that is called with the error of a probe and with that of the last one; each is empty for an answer."""


FindStall = Callable[[], str]
"""Function that returns the reason why a source that answers sends nothing; empty if it does."""


def watch_source(transport: Transport, note: NoteAnswer, find_stall: FindStall) -> AbstractContextManager[None]:
    """Probes the source in a thread until the context ends, if its transport can be probed."""
    return _watch_probes(transport, note, find_stall) if isinstance(transport, ProbesSource) else nullcontext()


@contextmanager
def _watch_probes(transport: ProbesSource, note: NoteAnswer, find_stall: FindStall) -> Iterator[None]:
    ended, probe = threading.Event(), transport.open_probe()
    pause = transport.probe_seconds

    def find_error() -> str:
        return _find_error(probe) or find_stall()

    def watch_until_ended() -> None:
        try:
            _note_errors(find_error, note, pause, ended)
        finally:
            probe.close_probe()

    thread = threading.Thread(target=watch_until_ended, name="probe", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _note_errors(find_error: Callable[[], str], note: NoteAnswer, pause_seconds: float, ended: threading.Event) -> None:
    last = ""
    while not ended.wait(pause_seconds):
        error = find_error()
        if (error or last) and not ended.is_set():
            note(error, last)
        last = error


def _find_error(probe: Probe) -> str:
    """Returns the reason why the source does not answer; empty if it does."""
    try:
        probe.check_answer()
    except ArcticError as error:
        return str(error)
    return ""
