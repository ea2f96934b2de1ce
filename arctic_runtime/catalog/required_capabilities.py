"""Refuses models that need capabilities which their catalog lacks, such as views, before anything is written."""

from __future__ import annotations

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog_kinds.capabilities import Capabilities, check_model_needs
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.profile import Profile, mask_secrets


def check_declared_needs(profile: Profile, model: Model) -> None:
    """Raises ConfigError if catalogs of the profile's kind lack a capability that a model needs; asks no server."""
    if profile.build_pyiceberg_properties() is None:
        raise _build_unread_error(profile, model)
    _check_needs(profile, model, profile.catalog_kind.capabilities)


def check_needs(reader: CatalogReader, model: Model) -> None:
    """Raises ConfigError if the catalog is known to lack a capability that a model needs.

    Raises CatalogError if the catalog's server does not answer.
    """
    if not reader.is_supported:
        raise _build_unread_error(reader.profile, model)
    _check_needs(reader.profile, model, reader.capabilities)


def describe_catalog(profile: Profile) -> str:
    """Describes a profile's catalog for errors: its name, its type and its address, without secrets."""
    properties = mask_secrets(profile.catalog_properties)
    kind = properties.get("type", "as the server has it")
    return f"catalog {profile.catalog} ({' '.join(filter(None, (kind, properties.get('uri'))))})"


def _check_needs(profile: Profile, model: Model, capabilities: Capabilities) -> None:
    check_model_needs(str(model.table), describe_catalog(profile), capabilities, _find_view_key(model.config))


def _find_view_key(config: ModelConfig) -> str:
    """Returns the first configuration setting of a model for which the catalog must have views; empty if none does."""
    if config.merge == "on_read":
        return "merge: on_read"
    if config.current_view:
        return "current_view"
    return "changes_view" if config.changes_view else ""


def _build_unread_error(profile: Profile, model: Model) -> ConfigError:
    return ConfigError(
        f"{model.table}: arctic models need a catalog that is read without Spark; nothing was written.",
        where=describe_catalog(profile),
        expected="a catalog that pyiceberg opens",
        actual="one that only Spark opens",
        fix="use `warehouse: …`, or a `catalog_config` of the type `jdbc` (on PostgreSQL), `rest`, `glue` or `hive`; "
        "dbt's own materializations work in this one",
    )
