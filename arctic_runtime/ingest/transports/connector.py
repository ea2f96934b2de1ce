"""Defines connectors, which each transport provides, and functions that read settings which several of them have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import Format
from arctic_runtime.ingest.formats.registry import FORMATS, describe_formats, make_format
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.transport import CatalogTable, Transport
from arctic_runtime.model.sources.positions import ParsePosition, keep_opaque
from arctic_runtime.plan.config.config_readers import read_plain, read_plain_values, read_text
from arctic_runtime.plan.config.value_reader import Setting, keep_value
from arctic_runtime.profile import mask_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Session = Callable[[], "SparkSession"]


ReadMessages = Callable[["DataFrame"], "DataFrame"]
"""Converts events whose PAYLOAD has the bytes of the source to events as transports return them."""


def keep_messages(messages: DataFrame) -> DataFrame:
    """Returns messages as they are, since they are JSON."""
    return messages


@dataclass(frozen=True)
class SourceConnection:
    """The open configuration of a source: its transport, the format of its events, and the parser of its positions.

    `read_messages` makes events of the payloads of dead letters, which have the bytes of the source.
    """

    transport: Transport
    form: Format
    parse_position: ParsePosition = keep_opaque
    read_messages: ReadMessages = keep_messages


@dataclass(frozen=True)
class Connector:
    """A connector by the name that users write, with the settings that users can write below `meta.arctic.ingest`."""

    name: str
    """The name."""

    settings: tuple[Setting, ...]
    """Settings that the connector accepts."""

    required: tuple[str, ...]
    """Settings that the connector needs."""

    connect: Callable[[IngestSource, CatalogReader, Session], SourceConnection]
    """Creates the connection of a source."""

    describe: Callable[[IngestSource], str]
    """Names server, database or folder for people, without secrets."""

    parse_position: ParsePosition
    """Parses positions in the source, to compare and show them."""

    list_jars: Callable[[IngestSource], tuple[str, ...]] = lambda source: ()  # noqa: ARG005 - the interface
    """Lists the groups of JARs with which Spark has to be started for a source."""

    list_tables: Callable[[IngestSource], list[CatalogTable]] | None = None
    """Lists the tables of a database; None for sources without such a list."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the settings that the connector accepts."""
        return tuple(setting.name for setting in self.settings)


PASSWORD_SETTINGS = (
    Setting("password", read_plain, "the password; dbt writes it into `target/manifest.json`"),
    Setting("password_env", read_text, "the environment variable with the password"),
)
PROPERTIES = Setting("properties", read_plain_values, "further settings of the program that reads the source")
FORMAT = Setting(
    "format", keep_value(describe_formats()), "format of the events, alone or with its options", "`debezium`"
)


def list_wrong_values(settings: Iterable[Setting], written: Mapping[str, Any]) -> list[str]:
    """Returns an error for each setting whose value can't be read."""
    wrong = []
    for setting in settings:
        if setting.name in written:
            try:
                setting.read(setting.name, written[setting.name])
            except ConfigError as error:
                wrong.append(mask_text(str(error)))
    return wrong


def read_password(source: IngestSource, settings: Mapping[str, Any] | None = None) -> str:
    """Returns the password from the settings or from the environment variable `password_env`; empty if there is none.

    The settings are those of the source by default. Raises ConfigError if the variable is not set.
    """
    settings = source.connection if settings is None else settings
    variable = settings.get("password_env")
    if variable is None:
        return str(settings.get("password", ""))
    password = os.environ.get(str(variable))
    if password is None:
        raise ConfigError(
            f"source {source.name}: the environment variable {variable} of `password_env` is not set.",
            fix="set it where `arctic ingest` runs",
        )
    return password


def read_properties(source: IngestSource) -> Mapping[str, str]:
    """Returns the `properties` of a source; empty if it sets none."""
    return read_plain_values("properties", source.connection.get("properties", {}))


def read_format(source: IngestSource) -> Format:
    """Builds the event format of a source from its setting `format`, such as `canal` or `{canal: {zone: UTC}}`.

    The default is `debezium`. Raises ConfigError if the setting can't be used.
    """
    written = source.connection.get("format", "debezium")
    if isinstance(written, Mapping) and len(written) == 1:
        ((name, options),) = written.items()
        if options is None or isinstance(options, Mapping):
            return make_format(str(name), options or {})
    if not isinstance(written, str):
        raise ConfigError(
            f"source {source.name}: `format` must be one of {', '.join(FORMATS)}, alone or with its options, "
            f"such as {{rows: {{operation: op}}}}; found {mask_text(repr(written))}"
        )
    return make_format(written, {})


def describe_address(source: IngestSource) -> str:
    """Describes for people the connector of a source and its `servers` or `path`, without secrets."""
    address = source.connection.get("servers") or source.connection.get("path")
    return source.connector if address is None else f"{source.connector} {mask_text(str(address))}"
