"""Checks that the libraries by which pyiceberg reads a catalog and its files are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from arctic_runtime.catalog_kinds.object_stores import FSSPEC_FILE_IO, PYTHON_FILE_IO, find_store
from arctic_runtime.errors import ConfigError

if TYPE_CHECKING:
    from arctic_runtime.profile import Profile


def check_libraries(profile: Profile) -> None:
    """Raises ConfigError if a library that the profile's catalog or its object store needs is not installed.

    The error has the command that installs the library.
    """
    properties = profile.build_pyiceberg_properties()
    if properties is None:
        return
    library = profile.catalog_kind.find_library(profile.catalog_properties)
    needed = [(f"a catalog of type {profile.catalog_kind.name}", *library)] if library else []
    store = find_store(profile.catalog_properties)
    if store is not None and properties.get(PYTHON_FILE_IO) == FSSPEC_FILE_IO:
        needed.append((f"files in {store.name}", store.fsspec_library, store.extra))
    for use, module, extra in needed:
        if find_spec(module) is None:
            raise ConfigError(
                f"The library {module}, by which {use} is read, is not installed: pip install 'dbt-arctic[{extra}]'"
            )
