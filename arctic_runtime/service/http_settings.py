"""Address and access settings of HTTP."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SkipValidation, StrictFloat, StrictInt
from pydantic.dataclasses import dataclass

from arctic_runtime.errors import ConfigError

SHORTEST_TOKEN = 16
Role = Literal["reader", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Roles of users; each may do what those before it may.

A reader sees everything, an operator also refreshes, pauses and maintains tables, and an admin also replaces or drops
rows.
"""

_CLOSED = ConfigDict(extra="forbid")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, config=_CLOSED)
class HttpUser:
    """A user of the server, with a token and a role; raises ConfigError for settings that can't be used."""

    name: str = Field(description="name of the user, for the audit log")
    token: str = Field(description="secret that the user sends, of 16 characters or more", repr=False)
    role: Annotated[Role, SkipValidation] = Field(
        "reader", description="what the user may do; each role may do what those before it may"
    )

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise ConfigError(f"a user of HTTP needs a name in printable characters; found {self.name!r}")
        if self.role not in ROLES:
            raise ConfigError(f"the role of the user {self.name} must be {', '.join(ROLES)}; found {self.role!r}")
        check_token(self.token, f"the token of the user {self.name}")


@dataclass(frozen=True, config=_CLOSED)
class OpenIdSettings:
    """An OpenID provider whose tokens users send; raises ConfigError for settings that can't be used."""

    issuer: str = Field(description="URL of the provider, as its tokens name it")
    audience: str = Field(description="name of this service, which its tokens must have as their audience")
    role_claim: str = Field("roles", description="claim of a token with the names of roles")
    role_prefix: str = Field("", description="text before `reader`, `operator` or `admin` in the names of roles")
    name_claim: str = Field("sub", description="claim of a token with the name of the user, for the audit log")
    seconds: StrictFloat = Field(5.0, description="maximum time to wait for the provider")
    pause_seconds: StrictFloat = Field(30.0, description="minimum time between two reads of the provider's keys")

    def __post_init__(self) -> None:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK_NAMES):
            raise ConfigError(f"the issuer of OpenID must be a URL with https; found {self.issuer!r}")
        if not self.audience:
            raise ConfigError("OpenID needs an `audience`, the name of this service in its tokens")


@dataclass(frozen=True, config=_CLOSED)
class HttpSettings:
    """Address, secret and limits of the HTTP server.

    Raises ConfigError for settings that can't be used, or that would let everybody read the warehouse.
    """

    host: str = Field(
        "127.0.0.1",
        description="address to listen on; others than loopback need `token`, `users` or `open_id`",
    )
    port: StrictInt = Field(8470, description="port to listen on; 0 takes any port that is free")
    token: str = Field(
        "",
        description="secret that clients must send, for everything; without any, only loopback addresses may be served",
        repr=False,
    )
    users: tuple[HttpUser, ...] = Field((), description="users with tokens of their own")
    open_id: OpenIdSettings | None = Field(None, description="provider whose tokens are accepted too")
    audit_file: str = Field(
        "",
        description="file to which changes and queries that are asked for are written; empty for the process log",
    )
    certificate_file: str = Field("", description="file with the certificate for HTTPS; empty for HTTP")
    key_file: str = Field("", description="file with the certificate's key")
    allowed_hosts: tuple[str, ...] = Field((), description="further names by which clients may call the server")
    body_bytes: StrictInt = Field(65_536, description="maximum size of a request body")
    request_seconds: StrictFloat = Field(30.0, description="maximum duration of a request")
    streams: StrictInt = Field(64, description="maximum number of clients that follow events at the same time")

    def __post_init__(self) -> None:
        self._check_token()
        if not 0 <= self.port <= 65_535:
            raise ConfigError(f"the port of HTTP must be between 0 and 65535; found {self.port}")
        if bool(self.certificate_file) != bool(self.key_file):
            raise ConfigError(
                "TLS needs a certificate and its key; only one of the two is set.",
                actual=f"certificate {self.certificate_file!r}, key {self.key_file!r}",
                fix="set both, or neither",
            )
        for name, value in (
            ("body_bytes", self.body_bytes),
            ("request_seconds", self.request_seconds),
            ("streams", self.streams),
        ):
            if value <= 0:
                raise ConfigError(f"`{name}` of HTTP must be more than 0; found {value}")

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def has_users(self) -> bool:
        """Whether requests need a token."""
        return bool(self.token or self.users or self.open_id)

    @property
    def has_tls(self) -> bool:
        return bool(self.certificate_file)

    def allows_host(self, host: str) -> bool:
        """Whether a request may use `host`, a name without a port, to call the server.

        IP addresses are allowed unless the server listens on a loopback address: unlike a name, an address can't be
        made to resolve to this machine by an attacker.
        """
        name = host.lower().removeprefix("[").removesuffix("]")
        if name in {
            *_LOOPBACK_NAMES,
            self.host.lower(),
            *(allowed_host.lower() for allowed_host in self.allowed_hosts),
        }:
            return True
        return not self.is_loopback and _is_address(name)

    def _check_token(self) -> None:
        names = [user.name for user in self.users]
        if len(set(names)) < len(names):
            raise ConfigError(f"users of HTTP need different names; found {', '.join(sorted(names))}")
        if not self.token:
            if not (self.is_loopback or self.users or self.open_id):
                raise ConfigError(
                    f"HTTP on {self.host} can be reached from other machines, and has no token.",
                    expected="a loopback address such as 127.0.0.1, or a token that clients must show",
                    fix="set a token, or serve 127.0.0.1 and put a proxy with a login in front",
                )
            return
        check_token(self.token, "the token of HTTP")


RECORDS: Mapping[str, type[HttpSettings | HttpUser | OpenIdSettings]] = {
    "serve.http": HttpSettings,
    "serve.http.users": HttpUser,
    "serve.http.open_id": OpenIdSettings,
}
"""The classes of the mappings that users write, by their places in a target."""


def check_token(token: str, label: str) -> None:
    """Raises ConfigError for a token that is short, or that can't stand in a header; `label` names it."""
    if len(token) < SHORTEST_TOKEN or not all("!" <= character <= "~" for character in token):
        raise ConfigError(
            f"{label} must have at least {SHORTEST_TOKEN} visible ASCII characters and no space; found "
            f"one of {len(token)} characters.",
            fix="make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`",
        )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
