"""Wraps calls to a catalog: retries, errors that name catalog and remedy, and a check of the installed libraries."""

from __future__ import annotations

import pkgutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from arctic_runtime.catalog_kinds.missing_rights import to_rights_error
from arctic_runtime.catalog_kinds.object_stores import FSSPEC_FILE_IO, PYTHON_FILE_IO, describe_store, find_store
from arctic_runtime.effects import Engine, EngineFailure, perform_effect, wait_for_lock
from arctic_runtime.errors import CatalogError, ConfigError
from arctic_runtime.profile import Profile, mask_secrets, mask_text

if TYPE_CHECKING:
    from arctic_runtime.profile import Profile


T = TypeVar("T")

_FULL = "The disk is full: make space, then run again; nothing was published."
_CURES = (
    ("readonly", "The warehouse is read-only here: check its permissions."),
    ("read-only", "The warehouse is read-only here: check its permissions."),
    ("No space left", _FULL),
    ("disk is full", _FULL),
    ("quota exceeded", _FULL),
    # SQLite also needs space to read: for the file with which processes share its log.
    ("disk I/O error", "Is the disk full? Make space, or have the disk checked, then run again."),
    ("Permission denied", "Check the permissions of the warehouse."),
    ("unable to open", "Check that the warehouse exists and that this user may write to it."),
)


class CatalogCalls:
    """Calls functions that use the catalog of a profile; raises CatalogError if the catalog does not answer."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def perform_change(self, effect_name: str, description: str, change: Callable[[], T]) -> T:
        """Calls `change`, which changes the catalog, and returns its result; retries while the catalog is locked.

        `effect_name` is the name of the change in `EFFECTS`; `description` describes it in errors, such as `create
        table x`.
        """
        return perform_effect(
            effect_name,
            lambda: self._run_explained(description, change),
            self._format_subject(description),
            self._engine,
        )

    def ask_catalog(self, description: str, question: Callable[[], T]) -> T:
        """Calls `question`, which only reads the catalog, and returns its result; retries while the catalog is locked.

        `description` describes the question in errors.
        """
        return wait_for_lock(
            lambda: self._run_explained(description, question), self._format_subject(description), self._engine
        )

    @cached_property
    def _engine(self) -> Engine:
        """Rules for retries after errors of pyiceberg: only `CatalogLocked` is retried; others are converted before."""
        file = self._profile.sqlite_file
        unlock = f"see who holds the file, for instance with `fuser -v {file}`, and let it finish or end it"
        return Engine(
            (CatalogLocked,),
            lambda error: EngineFailure("locked", str(error)),
            unlock,
            self._profile.thresholds.commits,
        )

    def _run_explained(self, description: str, action: Callable[[], T]) -> T:
        with self._explain_errors(description):
            return action()

    @contextmanager
    def _explain_errors(self, description: str) -> Iterator[None]:
        try:
            yield
        except self.database_errors as error:
            text = str(getattr(error, "orig", error))
            if "locked" in text or "busy" in text:
                raise CatalogLocked(text) from error
            raise self._build_error(description, text) from error
        except self._client_errors as error:
            raise self._build_error(description, str(error)) from error

    @property
    def database_errors(self) -> tuple[type[Exception], ...]:
        """Exceptions that a catalog in a database raises; empty for other catalogs."""
        if not self._profile.catalog_kind.is_database:
            return ()
        return (sqlite3.Error, *_list_loaded("sqlalchemy.exc:DBAPIError"))

    @property
    def _client_errors(self) -> tuple[type[Exception], ...]:
        """Exceptions that report that a file can't be read, or that a server is not reached, or refuses."""
        return (OSError, *_list_loaded(*self._profile.catalog_kind.client_errors))

    def _build_error(self, description: str, reason: str) -> CatalogError:
        subject, reason = self._format_subject(f"could not {description}"), mask_text(reason.strip())
        refused = to_rights_error(reason, subject, self._profile.catalog_properties.get("jdbc.user"))
        if refused is not None:
            return refused
        cure = next((cure for sign, cure in _CURES if sign in reason), "Is it up, and is its address right?")
        return CatalogError(f"{subject}: {reason}. {cure}")

    def _format_subject(self, description: str) -> str:
        return f"catalog {self._profile.catalog} ({self._address}): {description}"

    @property
    def _address(self) -> str:
        properties = self._profile.catalog_properties
        file = self._profile.sqlite_file
        catalog = mask_secrets(properties).get("uri", "no address") if file is None else str(file)
        if find_store(properties) is None:
            return catalog
        return f"{catalog}, {mask_text(describe_store(properties))}"


def _list_loaded(*names: str) -> tuple[type[Exception], ...]:
    """Returns the exceptions, named as `module:name`, of modules that are loaded; no other module can raise its own."""
    return tuple(pkgutil.resolve_name(name) for name in names if name.partition(":")[0] in sys.modules)


class CatalogLocked(Exception):
    """Raised if the catalog's database is locked by another process."""


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
