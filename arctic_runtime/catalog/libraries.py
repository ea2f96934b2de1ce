"""Checks that the libraries by which pyiceberg reads a catalog and its files are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from arctic_runtime.catalog_kinds.object_stores import FSSPEC_FILE_IO, PYTHON_FILE_IO, find_store
from arctic_runtime.errors import ConfigError

if TYPE_CHECKING:
    from arctic_runtime.profile import Profile

_LIBRARIES_OF_KINDS = {"glue": ("boto3", "glue"), "hive": ("thrift", "hive")}
"""The module that reads each kind of catalog, and the extra of this package that installs it."""


def check_libraries(profile: Profile) -> None:
    """Raises ConfigError, with the command that installs it, if a library that the profile needs is not installed."""
    properties = profile.build_pyiceberg_properties()
    if properties is None:
        return
    kind = profile.catalog_kind.name
    needed = [(f"a catalog of type {kind}", *_LIBRARIES_OF_KINDS[kind])] if kind in _LIBRARIES_OF_KINDS else []
    store = find_store(profile.catalog_properties)
    if store is not None and properties.get(PYTHON_FILE_IO) == FSSPEC_FILE_IO:
        needed.append((f"files in {store.name}", store.fsspec_library, store.extra))
    for use, module, extra in needed:
        if find_spec(module) is None:
            raise ConfigError(
                f"The library {module}, by which {use} is read, is not installed: pip install 'dbt-arctic[{extra}]'"
            )
