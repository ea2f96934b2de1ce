"""Writes the YAML of a dbt source with the tables of its database, without secrets, to paste into a project."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.database_kinds import DATABASE_KINDS
from arctic_runtime.ingest.source import DEAD_LETTERS, IngestedTable, IngestSource, read_default_schema
from arctic_runtime.ingest.transports.transport import CatalogTable
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import mask_secrets

_SCHEMES = {**{name: name for name in DATABASE_KINDS}, "postgres": "postgresql"}


def build_source_at(url: str, password_env: str | None) -> IngestSource:
    """Builds a source without tables for a URL such as `postgresql://user@host:port/database`.

    The password is read from an environment variable: `password_env` or, without it, that of the database's own client
    programs. Raises ConfigError for a URL of another form, or with a password.
    """
    parts = urlsplit(url)
    connector, database = _SCHEMES.get(parts.scheme), unquote(parts.path.strip("/"))
    if connector is None or not parts.hostname or not parts.username or not database or parts.query:
        raise ConfigError(
            f"--discover: {mask_secrets({'url': url})['url']} is no address of a database.",
            expected=f"{' or '.join(DATABASE_KINDS)}://user@host:port/database, or the name of a source",
        )
    own_variable = DATABASE_KINDS[connector].password_variable
    if parts.password is not None:
        raise ConfigError(
            "--discover: a password in an address can be seen by other users of this machine.",
            fix=f"put it into the environment variable {own_variable}, or name one by --password-env",
        )
    variable = password_env or own_variable
    connection: dict[str, Any] = {"host": parts.hostname}
    if parts.port is not None:
        connection["port"] = parts.port
    connection |= {"database": database, "user": unquote(parts.username)}
    if password_env or variable in os.environ:
        connection["password_env"] = variable
    dead_letter_table, schema = (
        TableName(connector, database, f"{database}{DEAD_LETTERS}"),
        read_default_schema(connector, connection),
    )
    return IngestSource(database, connector, connection, (), dead_letter_table, table_schema=schema)


def write_source_yaml(source: IngestSource, tables: Sequence[CatalogTable]) -> list[str]:
    """Returns the lines of YAML for a source with these tables; tables that it already declares keep their settings."""
    return [
        "sources:",
        f"  - name: {_write_scalar(source.name)}",
        f"    schema: {_write_scalar(source.dead_letter_table.schema)}",
        "    config:",
        "      meta:",
        "        arctic:",
        "          ingest:",
        *(
            f"            {line}"
            for key, value in source.chosen_settings.items()
            for line in _write_setting(source, key, value)
        ),
        "    tables:",
        *(f"      {line}" for line in _write_tables(source, tables)),
    ]


def _write_setting(source: IngestSource, key: str, value: Any) -> Iterator[str]:
    if key == "password":
        variable = f"{re.sub('[^A-Z0-9]+', '_', source.name.upper())}_PASSWORD"
        yield f"password_env: {variable}  # the environment variable that has the password"
    elif key == "properties" and isinstance(value, Mapping):
        shown = mask_secrets({str(name): str(value_shown) for name, value_shown in value.items()})
        yield "properties:"
        for name, value_shown in shown.items():
            yield (
                f"  {_write_scalar(name)}: {_write_scalar(value_shown)}"
                if value_shown == str(value[name])
                else f"  # {name}: {value_shown}"
            )
    else:
        yield f"{key}: {_write_scalar(value)}"


def _write_tables(source: IngestSource, tables: Sequence[CatalogTable]) -> Iterator[str]:
    declared = {table.source_name: table for table in source.tables}
    names = Counter(table.name.casefold() for table in tables)
    for table in sorted(tables):
        known = declared.get(table.full_name)
        name = table.name if names[table.name.casefold()] == 1 else f"{table.schema}_{table.name}"
        name = known.name if known else name
        settings = _build_settings(source, table, name, known)
        yield f"- name: {_write_scalar(name)}{_write_key_comment(table, settings)}"
        if known and known.table.name != name:
            yield f"  identifier: {_write_scalar(known.table.name)}"
        if settings:
            yield f"  config: {{meta: {{arctic: {_write_scalar(settings)}}}}}"


def _write_key_comment(table: CatalogTable, settings: Mapping[str, Any]) -> str:
    """Returns a YAML comment about a table's primary key in the database; "" if the settings contain the key."""
    if "primary_key" in settings:
        return ""
    key = " ".join(", ".join(table.key).split())
    return f"  # primary key: {key}" if key else "  # no primary key: its events are appended"


def _build_settings(
    source: IngestSource, table: CatalogTable, name: str, known: IngestedTable | None
) -> dict[str, Any]:
    """Returns the settings of a table: the declared ones, and its name in the database unless that is the default."""
    settings = dict(known.settings) if known else {}
    if known and known.renames:
        settings["columns"] = dict(known.renames)
    if known and known.schema_changes != source.schema_changes:
        settings["schema_changes"] = known.schema_changes
    if table.schema != source.table_schema:
        settings["source_table"] = table.full_name
    elif table.name != (known.table.name if known else name):
        settings["source_table"] = table.name
    return settings


def _write_scalar(value: Any) -> str:
    """Formats a value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()
