"""Users of the HTTP interface: who sends a request, and their roles."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.service.http_settings import ROLES, HttpSettings, OpenIdSettings, Role

if TYPE_CHECKING:
    from arctic_runtime.service.http.open_id import OpenIdProvider


SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
AGENTS_PATH: Final = "/mcp"
"""Path of the Model Context Protocol, where each request is a POST; its tools check the roles that they need."""

_OPERATIONS = "/api/operations/"
QUERY_PATH: Final = f"{_OPERATIONS}sql"
"""Path of queries, which change nothing, and are no GET, since their texts have values."""

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
    if method in SAFE_METHODS or path in (AGENTS_PATH, QUERY_PATH):
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
