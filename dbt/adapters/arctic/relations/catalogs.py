"""Checks `catalogs.yml`, which may have integrations of type `iceberg` for the profile's catalog."""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.catalogs import CatalogIntegration, CatalogIntegrationConfig
from dbt.adapters.contracts.relation import RelationConfig
from dbt_common.exceptions import DbtRuntimeError

_FORMATS = (None, "parquet")


@dataclass
class ArcticCatalogRelation:
    """Settings of a model's relation that are determined by its catalog integration in `catalogs.yml`."""

    catalog_name: str | None
    table_format: str | None = "iceberg"
    external_volume: str | None = None
    file_format: str | None = None


class IcebergIntegration(CatalogIntegration):
    """Catalog integration for the profile's catalog, under the name that models use in `catalog_name`."""

    catalog_type = "iceberg"
    table_format = "iceberg"
    allows_writes = True

    def __init__(self, config: CatalogIntegrationConfig) -> None:
        for key, value in (
            ("external_volume", config.external_volume),
            ("adapter_properties", dict(config.adapter_properties or {})),
        ):
            if value:
                raise DbtRuntimeError(
                    f"catalogs.yml: `{key}` of {config.name} is not supported; found {value!r}.\n"
                    "  what to do: describe the catalog in the profile, below `warehouse` or `catalog_config`"
                )
        if config.table_format not in (None, "iceberg") or config.file_format not in _FORMATS:
            raise DbtRuntimeError(
                f"catalogs.yml: tables of {config.name} are Iceberg tables of Parquet files.\n"
                f"  found: table_format {config.table_format}, file_format {config.file_format}\n"
                "  what to do: leave both out"
            )
        super().__init__(config)

    def build_relation(self, config: RelationConfig) -> ArcticCatalogRelation:  # noqa: ARG002
        return ArcticCatalogRelation(self.catalog_name)


def check_integration(config: CatalogIntegrationConfig, catalog: str) -> None:
    """Raises DbtRuntimeError if an Iceberg integration is not for `catalog`, the catalog of the profile."""
    if config.catalog_type.casefold() == IcebergIntegration.catalog_type and config.catalog_name != catalog:
        raise DbtRuntimeError(
            f"catalogs.yml: a profile has one catalog, and this integration is another one.\n"
            f"  expected: {catalog}, as in the profile\n  found: {config.catalog_name}, for {config.name}\n"
            "  what to do: name the write integration as the profile's catalog, or set `catalog` in the profile"
        )
