"""The audit log: who has asked for a change over HTTP, and what agents have asked."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ConfigError

LOG = logging.getLogger("arctic_runtime.audit_log")


class AuditLog:
    """Appends lines to a file, or, without one, writes them to the log of the process.

    The lines have the names of tables and arguments, but not the values of arguments, which may be keys of persons.
    """

    def __init__(self, file: str = "") -> None:
        """Creates the file if it does not exist; raises ConfigError if it can't be written."""
        self._file = Path(file) if file else None
        self._writing = threading.Lock()
        if self._file is not None:
            self._append_line("")

    def add_entry(self, request: dict[str, Any], body: bytes, status: int) -> None:
        """Writes the line of one request; `request` has what is known besides its body and the status of its answer."""
        self._write_entry({**request, **_describe_body(body), "status": status})

    def add_effect(self, request: dict[str, Any], facts: Mapping[str, Any]) -> None:
        """Writes a line about an effect of a request besides the one that it asks for, before it happens."""
        self._write_entry({**request, **facts})

    def _write_entry(self, entry: Mapping[str, Any]) -> None:
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, **entry})
        if self._file is None:
            LOG.info(line)
        else:
            self._append_line(f"{line}\n")

    def _append_line(self, text: str) -> None:
        assert self._file is not None
        try:
            with self._writing, self._file.open("a") as stream:
                stream.write(text)
        except OSError as error:
            raise ConfigError(
                "The audit log can't be written.",
                where=f"serve.http.audit_file: {self._file}",
                actual=str(error),
                fix="make the file or its folder writable for the user of the service",
            ) from error


def _describe_body(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(given, dict):
        return {}
    tables, arguments = given.get("tables"), given.get("arguments")
    named = [table for table in tables if isinstance(table, str)] if isinstance(tables, list) else []
    return {"tables": named, "arguments": sorted(arguments) if isinstance(arguments, dict) else []}
