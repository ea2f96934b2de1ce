"""Writes everything that this process prints as lines of JSON: texts, warnings, logs of libraries, uncaught errors.

What Java prints is in Java's own file.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Collection
from types import TracebackType
from typing import Any, TextIO

from arctic_runtime.service.telemetry.logs import write_json_logs

_UNCAUGHT = logging.getLogger("uncaught")
_TRACEBACK = "Traceback (most recent call last):"


class LoggedStream(io.TextIOBase):
    """A stream that logs each text that is printed to it as one record of the logger `name`.

    A text ends where a call of `write` ends a line, so a message of several lines stays together, as a traceback does.
    """

    def __init__(self, name: str, level: int, stream: TextIO) -> None:
        self._logger = logging.getLogger(name)
        self._level = level
        self._stream = stream
        self._own = threading.local()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._own.text = getattr(self._own, "text", "") + text
        if _is_whole(self._own.text):
            self.flush()
        return len(text)

    def flush(self) -> None:
        text, self._own.text = getattr(self._own, "text", "").strip("\n"), ""
        # A log that can't be written reports that on the standard error, which would be logged again.
        if not text or getattr(self._own, "is_logging", False):
            return
        self._own.is_logging = True
        try:
            self._logger.log(self._level, "%s", text)
        finally:
            self._own.is_logging = False


def _is_whole(text: str) -> bool:
    """Whether a text is complete: it ends a line, and if it is a traceback it has come to the error."""
    if not text.endswith("\n"):
        return False
    return not text.startswith(_TRACEBACK) or not text.splitlines()[-1].startswith((" ", _TRACEBACK))


class JsonOutput:
    """Makes this process write lines of JSON alone until it ends, all of them to its standard error."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._secrets: frozenset[str] = frozenset()
        write_json_logs(self._stream)
        _take_handlers((sys.stdout, sys.stderr))
        for name, level in (("stdout", logging.INFO), ("stderr", logging.ERROR)):
            logging.getLogger(name).setLevel(level)
            setattr(sys, name, LoggedStream(name, level, getattr(sys, name)))
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        sys.unraisablehook = _log_unraisable
        threading.excepthook = _log_uncaught_in_thread

    def mask_secrets(self, secrets: Collection[str]) -> None:
        """Masks `secrets` in all later lines, besides those that are masked already."""
        self._secrets = self._secrets.union(secrets)
        write_json_logs(self._stream, self._secrets)
        _take_handlers((self._stream,))


def _take_handlers(streams: Collection[TextIO]) -> None:
    """Removes the handlers of libraries' loggers that write to one of `streams`; the root's handler writes instead."""
    for logger in list(logging.root.manager.loggerDict.values()):
        if not isinstance(logger, logging.Logger):
            continue
        for handler in list(logger.handlers):
            if isinstance(handler, logging.StreamHandler) and handler.stream in streams:
                logger.removeHandler(handler)
                logger.propagate = True


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _UNCAUGHT.critical("%s: %s", kind.__name__, error, exc_info=(kind, error, trace))


def _log_unraisable(arguments: Any) -> None:
    message = arguments.err_msg or "Exception ignored in"
    _UNCAUGHT.error(
        "%s: %r", message, arguments.object, exc_info=(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
    )


def _log_uncaught_in_thread(arguments: Any) -> None:
    if arguments.exc_type is SystemExit:
        return
    name = arguments.thread.name if arguments.thread is not None else "a thread"
    _UNCAUGHT.error("%s ended", name, exc_info=(arguments.exc_type, arguments.exc_value, arguments.exc_traceback))
