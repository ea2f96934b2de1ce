"""Address and access settings of HTTP."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from arctic_runtime.errors import ConfigError

SHORTEST_TOKEN = 16
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class HttpSettings:
    """Address, secret and limits of the HTTP server.

    Raises ConfigError for settings that can't be used, or that would let everybody read the warehouse.
    """

    host: str = "127.0.0.1"
    port: int = 8470
    """Port to listen on; 0 takes any port that is free."""

    token: str = field(default="", repr=False)
    """Secret that clients must send; without one, the server may only listen on a loopback address."""

    certificate_file: str = ""
    """File with the certificate for HTTPS; empty for HTTP."""

    key_file: str = ""
    """File with the certificate's key."""

    allowed_hosts: tuple[str, ...] = ()
    """Further names by which clients may call the server."""

    body_bytes: int = 65_536
    """Maximum size of a request body."""

    request_seconds: float = 30.0
    """Maximum duration of a request."""

    streams: int = 64
    """Maximum number of clients that follow events at the same time."""

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
        if not self.token:
            if not self.is_loopback:
                raise ConfigError(
                    f"HTTP on {self.host} can be reached from other machines, and has no token.",
                    expected="a loopback address such as 127.0.0.1, or a token that clients must show",
                    fix="set a token, or serve 127.0.0.1 and put a proxy with a login in front",
                )
            return
        if len(self.token) < SHORTEST_TOKEN or not all("!" <= character <= "~" for character in self.token):
            raise ConfigError(
                f"the token of HTTP must have at least {SHORTEST_TOKEN} visible ASCII characters and no space; found "
                f"one of {len(self.token)} characters.",
                fix="make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`",
            )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
