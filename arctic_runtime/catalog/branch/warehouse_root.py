"""Chooses the folder in which tables and views that are new on a branch lie.

A branch is a JDBC catalog of Iceberg, which puts a new table into the folder `ROOT/SCHEMA/TABLE`. Other catalogs have a
folder for each schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from arctic_runtime.errors import ConfigError

_ADDRESS = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]+:)?/")


def choose_root(locations: Mapping[str, str], warehouse: str) -> str:
    """Returns the folder below which the folders of schemas lie on a branch.

    `locations` are the folders of schemas in the catalog, as far as they are known, and `warehouse` is what the profile
    or the server has for `warehouse`: an address, a name, or nothing. Raises ConfigError if there is no such folder.
    """
    folders = {schema: location.rstrip("/") for schema, location in locations.items()}
    roots = {folder.removesuffix(f"/{schema}") for schema, folder in folders.items() if folder.endswith(f"/{schema}")}
    is_regular = all(folder.endswith(f"/{schema}") for schema, folder in folders.items())
    if len(roots) == 1 and is_regular:
        return roots.pop()
    if _ADDRESS.match(warehouse):
        return warehouse.rstrip("/")
    if len(folders) == 1:
        return next(iter(folders.values()))
    shown = ", ".join(f"{schema} in {folder}" for schema, folder in sorted(folders.items()))
    raise ConfigError(
        "`publish: build` does not know where new tables have to lie.",
        where="catalog_config.warehouse",
        expected="schemas whose `location` is ROOT/SCHEMA, one schema with a `location`, or the address of a folder",
        actual=shown or "neither a location of the schemas, nor tables in them",
        fix="write the address of a folder, as s3://bucket/path, or let the project write to one schema; a schema that "
        "is new gets its location when it is created in the catalog",
    )


def find_location(properties: Mapping[str, str], tables: Mapping[str, str]) -> str | None:
    """Returns the folder of a schema: the one in its properties, or else that with all of its tables.

    `tables` are the folders of tables, by their names. None if neither is known.
    """
    if stated := properties.get("location"):
        return stated
    parents = {folder.rstrip("/").removesuffix(f"/{name}") for name, folder in tables.items()}
    return parents.pop() if len(parents) == 1 and all(map(_ends_with_name, tables.items())) else None


def _ends_with_name(table: tuple[str, str]) -> bool:
    name, folder = table
    return folder.rstrip("/").endswith(f"/{name}")


def get_table_folder(file: str) -> str:
    """Returns the folder of a table or view from the address of its metadata file."""
    return file.rpartition("/metadata/")[0]
