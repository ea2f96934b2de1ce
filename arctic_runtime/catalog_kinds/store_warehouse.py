"""An embedded warehouse in an object store: the store has its files; its catalog is an SQLite file on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from arctic_runtime.catalog_kinds.object_stores import STORE_SCHEMES, is_store_key
from arctic_runtime.errors import ConfigError, suggest_nearest

STATE_FOLDER = ".arctic"
"""Name of the folder in a project for the catalog files of its warehouses in object stores."""

_STORE_KEYS = (
    "client.region",
    "io-impl",
    "s3.access-key-id",
    "s3.endpoint",
    "s3.path-style-access",
    "s3.secret-access-key",
    "s3.session-token",
)
"""Names of store properties that are suggested if an unknown one is set."""


@dataclass(frozen=True)
class StoreWarehouse:
    """A warehouse in an object store: its address, its catalog's SQLite file, and the properties to reach the store."""

    address: str
    catalog_file: Path
    store_properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def is_store_address(warehouse: object) -> bool:
    """Whether the location of a warehouse is the address of an object store, such as `s3://bucket/path`."""
    return "://" in str(warehouse) and urlsplit(str(warehouse)).scheme.lower() in STORE_SCHEMES


def place_store_warehouse(
    address: str, base: Path, store_properties: Mapping[str, str] | None = None
) -> StoreWarehouse:
    """Returns the warehouse at `address`, with its catalog in `<base>/.arctic/<scheme>/<bucket>/<path>/catalog.db`.

    Each address has a catalog of its own. Raises ConfigError if the address is not valid, such as one with a password,
    or if a property in `store_properties` does not concern a store.
    """
    parts = urlsplit(address.strip())
    names = [name for name in parts.path.split("/") if name]
    user, _, _ = parts.netloc.partition("@")
    if not parts.netloc or parts.query or parts.fragment or ".." in names or ":" in user:
        raise ConfigError(
            "The warehouse's address can't be used.",
            where="warehouse",
            expected=f"{parts.scheme}://bucket/path, without '?', '#', '..', user and password",
            actual=repr(address if ":" not in user else f"{parts.scheme}://***"),
            fix="write the address without them; credentials belong into the environment or catalog_config",
        )
    _check_store_properties(store_properties or {})
    scheme = STORE_SCHEMES[parts.scheme.lower()].schemes[0]
    folder = base.joinpath(STATE_FOLDER, scheme, parts.netloc, *names)
    place = "/".join([f"{parts.scheme.lower()}://{parts.netloc}", *names])
    return StoreWarehouse(place, folder / "catalog.db", dict(store_properties or {}))


def _check_store_properties(properties: Mapping[str, str]) -> None:
    for key in properties:
        if not is_store_key(key):
            raise ConfigError(
                f"'{key}' can't be set beside `warehouse`, which means an embedded catalog.",
                where="catalog_config",
                expected="keys of the store, as s3.endpoint, s3.access-key-id, client.region, gcs.…, adls.…",
                actual=repr(key),
                fix=f"remove it{suggest_nearest(key, _STORE_KEYS)}, or describe the whole catalog, with its warehouse, "
                "in catalog_config",
            )
