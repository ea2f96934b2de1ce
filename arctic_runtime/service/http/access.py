"""Users of the HTTP interface: who sends a request, their roles, and the audit log of their changes."""

from __future__ import annotations

import hmac
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import Headers

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.service.http_settings import ROLES, HttpSettings, OpenIdSettings, Role

if TYPE_CHECKING:
    from arctic_runtime.service.http.open_id import OpenIdProvider


SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_OPERATIONS = "/api/operations/"
_FOR_ADMINS = frozenset(f"{_OPERATIONS}{operation.name}" for operation in OPERATIONS if operation.needs_admin)


@dataclass(frozen=True)
class User:
    """A user of the service, with a role: a reader, an operator or an admin."""

    name: str
    role: Role

    def can_act_as(self, role: Role) -> bool:
        """Whether the user's role includes `role`: an admin may do what an operator may, and so on."""
        return ROLES.index(self.role) >= ROLES.index(role)


ANYBODY: Final = User("anybody", "admin")
"""The user of a server without tokens, which only programs on this machine can reach."""


def get_needed_role(method: str, path: str) -> Role:
    """Returns the role that a request needs: to read, to change the work of the service, or to replace or drop rows."""
    if method in SAFE_METHODS:
        return "reader"
    return "admin" if path in _FOR_ADMINS else "operator"


class Access:
    """Finds out who sends a request; `find_user` may block while keys are read from an OpenID provider."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._provider = None if settings.open_id is None else _open_provider(settings.open_id)

    @property
    def is_open(self) -> bool:
        """Whether requests need no token."""
        return not self._settings.has_users

    def find_user(self, headers: Headers) -> User | None:
        """Returns the user whose token the request has; None without a valid one."""
        if self.is_open:
            return ANYBODY
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        user = self._find_by_token(token.strip())
        if user is None and self._provider is not None:
            claimed = self._provider.read_token(token.strip())
            return None if claimed is None else User(*claimed)
        return user

    def _find_by_token(self, token: str) -> User | None:
        """Compares with all tokens, so that the time tells nothing about which of them is similar."""
        known = [User(user.name, user.role) for user in self._settings.users]
        tokens = [user.token for user in self._settings.users]
        if self._settings.token:
            known, tokens = [User("token", "admin"), *known], [self._settings.token, *tokens]
        equal = [hmac.compare_digest(token.encode(), other.encode()) for other in tokens]
        return next((user for user, is_equal in zip(known, equal, strict=True) if is_equal), None)


def _open_provider(settings: OpenIdSettings) -> OpenIdProvider:
    """Opens an OpenID provider; raises ConfigError if the library for its tokens is not installed."""
    if find_spec("jwt") is None:
        raise ConfigError(
            "`serve.http.open_id` needs a library that checks tokens.",
            expected="PyJWT",
            actual="it is not installed",
            fix="pip install 'dbt-arctic[oidc]'",
        )
    from arctic_runtime.service.http.open_id import OpenIdProvider

    return OpenIdProvider(settings)


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
