"""Masks for reports of this process, with its key and the secrets of its environment."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any

from arctic_runtime.model.columns import BEFORE
from arctic_runtime.model.masking import Mask, combine_masks

MASK_KEY = secrets.token_bytes(32)
"""Key of this process for hashes of masked values; it is never stored or shown, so nobody can try values with it."""

_SECRET_VARIABLES = "DBT_ENV_SECRET"
"""Beginning of the names of environment variables whose values are secrets to dbt."""

_SHORTEST_SECRET = 4


def build_mask(*masks: Mapping[str, bool]) -> Mask:
    """Builds the mask of tables with the same columns, each of which has its own `masks`, as in `Model.masks`."""
    return Mask(MASK_KEY, combine_masks(*masks), _list_secrets(os.environ))


def mask_row(mask: Mask, row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a row by column, as `mask` shows them; the row before in a change row has the same mask."""
    before = row.get(BEFORE)
    masked = {name: mask.hide_value(name, value) for name, value in row.items()}
    return {**masked, BEFORE: mask_row(mask, before)} if isinstance(before, Mapping) else masked


def hide_secrets(value: Any) -> Any:
    """Replaces the secrets of the environment in a JSON value by hashes, wherever they occur."""
    return build_mask().hide_value("", value)


def _list_secrets(environment: Mapping[str, str]) -> list[str]:
    """Lists the values of the environment variables that dbt treats as secrets, the longest first."""
    values = {value for name, value in environment.items() if name.startswith(_SECRET_VARIABLES)}
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)
