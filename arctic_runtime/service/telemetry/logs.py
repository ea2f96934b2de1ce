"""Writes logs, and all that this process prints, as lines of JSON: events of a service have table, job and kind.

What Java prints is in Java's own file.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, TextIO

from typing_extensions import Self

from arctic_runtime.profile import mask_secret, mask_text
from arctic_runtime.service.view.event_log import Event, EventLog
from arctic_runtime.service.view.live_data import Job, ServiceState
from arctic_runtime.spark.engine.messages import get_error_details
from arctic_runtime.thresholds import ServiceThresholds

LOGGER = "arctic"
_FIELDS = "arctic_fields"
"""Attribute of a log record that holds its structured fields."""

_AT = "arctic_at"
"""Attribute of a log record that holds the time of the event, if the event was logged later."""

_LOGGED_STATES = ("running", "done", "failed", "cancelled")
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Escapes of JSON for characters that end a line, or that a terminal obeys, and that JSON has as they are."""


class JsonFormatter(logging.Formatter):
    """Formats a log record as a line of JSON: time, level, logger, message, fields, and an error with its traceback.

    An ArcticError also adds its parts: `where`, `expected`, `actual` and `fix`. Text that looks like a secret is masked
    everywhere in the record, and so are the given `secrets` (see `mask_secret`).
    """

    def __init__(self, secrets: Collection[str] = ()) -> None:
        super().__init__()
        self._secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        now = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": (getattr(record, _AT, None) or now).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._mask_value(record.getMessage()),
        }
        line |= {name: self._mask_value(value) for name, value in getattr(record, _FIELDS, {}).items()}
        if record.exc_info:
            if record.exc_info[1] is not None:
                line |= self._mask_value(get_error_details(record.exc_info[1]))
            line["trace"] = self._mask_value(self.formatException(record.exc_info))
        text = json.dumps(line, ensure_ascii=False, default=str).translate(_ESCAPES)
        return text.encode("utf-8", "backslashreplace").decode()

    def _mask_value(self, value: Any) -> Any:
        """Returns the value with secrets masked, including those in nested mappings and lists."""
        if isinstance(value, str):
            for secret in self._secrets:
                value = mask_secret(value, secret)
            return mask_text(value)
        if isinstance(value, Mapping):
            return {str(key): self._mask_value(part) for key, part in value.items()}
        if isinstance(value, tuple | list):
            return [self._mask_value(part) for part in value]
        return value if isinstance(value, bool | int | float) or value is None else self._mask_value(str(value))


def write_json_logs(stream: TextIO, secrets: Collection[str] = ()) -> None:
    """Makes all loggers of this process, including those of libraries, write lines of JSON to `stream`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(logging.INFO)


def log_event(level: int, message: str, at: datetime | None = None, **fields: Any) -> None:
    """Logs a message with those `fields` that are not None; `at` is the time of the event, by default now."""
    present_fields = {name: value for name, value in fields.items() if value is not None}
    logging.getLogger(LOGGER).log(level, message, extra={_FIELDS: present_fields, _AT: at})


def log_message(text: str) -> None:
    """Logs a text that a service shows to people, as one record."""
    log_event(logging.INFO, text, event="message")


class EventLogger:
    """Logs the events of a service between `__enter__` and `__exit__`, in a thread of its own.

    It logs when jobs begin and end, ingested batches, and changes of the service's role, pauses or errors.
    """

    def __init__(self, events: EventLog, thresholds: ServiceThresholds) -> None:
        self._events = events
        self._wait_seconds = thresholds.event_wait_seconds
        self._last = events.last
        self._running: dict[str, Job] = {}
        self._service: ServiceState | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow_events, name="logs", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._log_new()

    def _follow_events(self) -> None:
        while not self._ending.is_set():
            self._events.wait_after(self._last, self._wait_seconds)
            self._log_new()

    def _log_new(self) -> None:
        events, missed = self._events.wait_after(self._last)
        if missed:
            log_event(logging.WARNING, f"{missed} events came too fast to be logged", event="missed", events=missed)
        for event in events:
            self._log_event(event)
            self._last = event.number

    def _log_event(self, event: Event) -> None:
        match event.kind:
            case "job":
                self._log_job(event.data, event.at)
            case "forgotten_job":
                if (job := self._running.pop(event.data["number"], None)) is not None:
                    log_job(job, event.at, "unchanged")
            case "batch":
                log_batch(event.data, event.at)
            case "service":
                self._log_service(event.data)

    def _log_job(self, job: Job, at: datetime) -> None:
        """Logs a job if its state has changed.

        Progress is left out, and so are ingested batches that did not fail, since these have events of their own.
        """
        if job.kind == "ingest" and job.state != "failed":
            return
        if job.state not in _LOGGED_STATES or (job.state == "running" and job.number in self._running):
            return
        if job.state == "running":
            self._running[job.number] = job
        else:
            self._running.pop(job.number, None)
        log_job(job, at)

    def _log_service(self, state: ServiceState) -> None:
        before, self._service = self._service, state
        if before is None or _list_logged_state(before) != _list_logged_state(state):
            level = logging.WARNING if state.errors else logging.INFO
            log_event(
                level,
                f"service {state.role.replace('_', ' ')}",
                event="service",
                role=state.role,
                leader=state.leader or None,
                paused=state.is_paused or None,
                errors=dict(state.errors) or None,
            )


def _list_logged_state(state: ServiceState) -> tuple[object, ...]:
    return (state.role, state.leader, state.is_paused, dict(state.errors))


def log_job(job: Job, at: datetime | None = None, state: str = "") -> None:
    """Logs the current state of a job, or `state` if it is given, which the job has had since `at`."""
    state = state or job.state
    tables = [str(table) for table in job.tables]
    name = ", ".join(table.name for table in job.tables) if job.kind == "refresh" else job.name
    log_event(
        logging.ERROR if state == "failed" else logging.INFO,
        f"{job.kind} {name} {state}",
        event=f"{job.kind}.{state}",
        job=job.number,
        table=tables[0] if len(tables) == 1 else None,
        tables=tables if len(tables) > 1 else None,
        operation=job.name if job.kind != "refresh" else None,
        reason=job.reason or None,
        seconds=round(job.seconds, 3) if job.ended_at else None,
        rows=dict(job.rows) or None,
        bytes=job.bytes or None,
        error=job.error or None,
        **job.error_details,
        at=at,
    )


def log_batch(batch: Mapping[str, Any], at: datetime | None = None) -> None:
    """Logs an ingested batch that ended at `at`."""
    dead = batch["dead"]
    log_event(
        logging.WARNING if dead else logging.INFO,
        f"batch of {batch['source']}",
        event="batch",
        source=batch["source"],
        events=batch["events"],
        rows=batch["tables"],
        dead=dead or None,
        seconds=batch["seconds"],
        at=at,
    )


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
    """Makes this process write only lines of JSON until it ends, all of them to its standard error."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._secrets: frozenset[str] = frozenset()
        write_json_logs(self._stream)
        _remove_library_handlers((sys.stdout, sys.stderr))
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
        _remove_library_handlers((self._stream,))


def _remove_library_handlers(streams: Collection[TextIO]) -> None:
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
