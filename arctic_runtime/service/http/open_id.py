"""An OpenID provider, by whose tokens users of the service prove who they are."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.request import urlopen

import jwt

from arctic_runtime.service.http_settings import ROLES, OpenIdSettings, Role

_LOG = logging.getLogger(__name__)
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms of signatures with a public key; a token that is signed with a shared secret is refused."""


class OpenIdProvider:
    """An OpenID provider, whose tokens name users and their roles.

    Its keys are read again if a token names another one, but not before the pause of the settings is over. So false
    tokens neither reach the provider nor delay others.
    """

    def __init__(self, settings: OpenIdSettings) -> None:
        self._settings = settings
        self._reading = threading.Lock()
        self._keys: Mapping[str, Any] = {}
        self._read_at = -settings.pause_seconds

    def read_token(self, token: str) -> tuple[str, Role] | None:
        """Returns name and role of a token's user; None if the token is not valid here, or gives no role."""
        try:
            key = self._find_key(str(jwt.get_unverified_header(token).get("kid", "")))
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError):
            return None
        role = self._find_role(claims)
        name = claims.get(self._settings.name_claim)
        return None if role is None or not isinstance(name, str) else (name, role)

    def _find_role(self, claims: Mapping[str, Any]) -> Role | None:
        """Returns the highest role among those that the token gives."""
        stated = claims.get(self._settings.role_claim)
        listed = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
        names = {name for name in listed if isinstance(name, str)}
        return next((role for role in reversed(ROLES) if f"{self._settings.role_prefix}{role}" in names), None)

    def _find_key(self, name: str) -> Any:
        """Returns the provider's key with this name; None if it has none, or if it does not answer."""
        with self._reading:
            now = time.monotonic()
            if name not in self._keys and now >= self._read_at + self._settings.pause_seconds:
                self._read_at = now
                self._keys = self._read_keys() or self._keys
            return self._keys.get(name)

    def _read_keys(self) -> Mapping[str, Any] | None:
        """Reads the public keys of the provider, by their names; None if it does not answer with any."""
        try:
            location = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            keys = jwt.PyJWKSet.from_dict(self._read_json(self._read_json(location)["jwks_uri"]))
        except (jwt.PyJWTError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _LOG.warning("the OpenID provider %s gives no keys: %s", self._settings.issuer, error)
            return None
        return {str(key.key_id or ""): key for key in keys.keys}

    def _read_json(self, address: str) -> Any:
        if not address.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
            raise ValueError(f"{address} is no address with https")
        with urlopen(address, timeout=self._settings.seconds) as answer:
            return json.load(answer)
