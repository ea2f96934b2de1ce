"""Masks values of columns and secrets in reports: a value is shown as a keyed hash, from which it can't be computed."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ALL_COLUMNS = "*"
"""Name under which masks say whether columns without an entry of their own are masked."""

_SECRET_COLUMN = re.compile(
    r"secret|token|credential|passw|passphrase|(?:access|api|encryption|private|signing|ssh)_?key", re.IGNORECASE
)
SHOWN_DIGITS = 12


def is_masked(column: str, masks: Mapping[str, bool]) -> bool:
    """Whether `masks`, as those of a `Mask`, hide a column."""
    default = masks.get(ALL_COLUMNS, _SECRET_COLUMN.search(column) is not None)
    return masks.get(column.lower(), default)


@dataclass(frozen=True)
class Mask:
    """Replaces values by hashes that nobody can compute without `key`, so that guessed values can't be tried.

    Equal values of one column have the same hash. Nulls stay null.
    """

    key: bytes = field(repr=False)
    columns: Mapping[str, bool]
    """Whether a column is masked, by its name in lower case; a column without an entry is if its name is a secret's."""

    secrets: Sequence[str] = field(default=(), repr=False)
    """Texts that are hashed wherever they occur in a value."""

    def hides_column(self, column: str) -> bool:
        """Whether all values of a column are shown as hashes."""
        return is_masked(column, self.columns)

    def hide_value(self, column: str, value: Any) -> Any:
        """Returns what is shown of a value of a column."""
        if value is None:
            return None
        return self._hash(column.lower(), str(value)) if self.hides_column(column) else self._hide_secrets(value)

    def hide_row(self, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Returns what is shown of a row, by column; None for None."""
        return None if row is None else {name: self.hide_value(name, value) for name, value in row.items()}

    def _hide_secrets(self, value: Any) -> Any:
        """Replaces the secrets in a value and in all parts of it."""
        match value:
            case str():
                for secret in self.secrets:
                    value = value.replace(secret, self._hash("", secret))
                return value
            case bytes() | bytearray():
                contains = any(secret.encode() in value for secret in self.secrets)
                return self._hash("", value.hex()) if contains else value
            case Mapping():
                return {self._hide_secrets(name): self._hide_secrets(part) for name, part in value.items()}
            case list() | tuple():
                return [self._hide_secrets(part) for part in value]
            case _:
                return value

    def _hash(self, scope: str, text: str) -> str:
        digest = hmac.new(self.key, f"{scope}\0{text}".encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
        return f"masked:{digest[:SHOWN_DIGITS]}"


def combine_masks(*masks: Mapping[str, bool]) -> dict[str, bool]:
    """Combines the masks of two tables with the same columns: a column is masked if either masks it."""
    names = {name for mask in masks for name in mask}
    return {name: any(mask.get(name, mask.get(ALL_COLUMNS, False)) for mask in masks) for name in names}
