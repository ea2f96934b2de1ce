"""The list of all connectors, and functions that use the connector that a source names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import (
    Connector,
    Session,
    SourceConnection,
    describe_address,
    list_wrong_values,
)
from arctic_runtime.ingest.transports.debezium.connectors import DATABASES
from arctic_runtime.ingest.transports.files.connector import FILES
from arctic_runtime.ingest.transports.kafka.connector import KAFKA
from arctic_runtime.ingest.transports.transport import CatalogTable
from arctic_runtime.model.sources.positions import ParsePosition, keep_opaque
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session_pool import ThreadSessions

CONNECTORS: tuple[Connector, ...] = (*DATABASES, KAFKA, FILES)

_UNTESTED = ("sqlserver", "mssql", "oracle", "mongodb", "db2", "informix", "vitess", "spanner", "cassandra")
"""Databases for which Debezium has a connector, and this package none, since it is not tested with them."""

_THROUGH_KAFKA = (
    "ingestion is not tested with this database: let Debezium's connector write its events to Kafka, and read them "
    "there with `connector: kafka` and `format: debezium`"
)

_BY_NAME = {connector.name: connector for connector in CONNECTORS}


def with_jars(profile: Profile, sources: Iterable[IngestSource]) -> Profile:
    """Returns the profile whose Spark has in addition the JARs that the connectors of `sources` need."""
    for source in sources:
        connector = _BY_NAME.get(source.connector)
        for group in connector.list_jars(source) if connector is not None else ():
            profile = profile.with_jars(group)
    return profile


def connect(source: IngestSource, reader: CatalogReader, session: Session) -> SourceConnection:
    """Creates the connection of a source, which opens one session for each of its threads.

    Raises ConfigError for an unknown connector or for wrong settings.
    """
    connector = find_connector(source)
    connection = connector.connect(source, reader, ThreadSessions(session).open_session)
    return replace(connection, parse_position=connector.parse_position)


def get_position_parser(connector: str) -> ParsePosition:
    """Returns the function that parses positions (in a source's log or stream) of a connector.

    For an unknown connector, the function parses any text to a position that can't be compared with others.
    """
    known = _BY_NAME.get(connector)
    return keep_opaque if known is None else known.parse_position


def describe_connection(source: IngestSource) -> str:
    """Describes for people the connector of a source and its server, database or folder, without secrets."""
    connector = _BY_NAME.get(source.connector)
    return (connector.describe if connector is not None else describe_address)(source)


def list_source_tables(source: IngestSource) -> list[CatalogTable]:
    """Lists the tables of a source's database.

    Raises ConfigError if the source is no database, if its connector is unknown, or if its settings are wrong.
    """
    connector = find_connector(source)
    if connector.list_tables is None:
        databases = [known.name for known in CONNECTORS if known.list_tables is not None]
        raise ConfigError(
            f"source {source.name}: a {source.connector} source has no catalog of tables.",
            expected=f"a database, connector {', '.join(databases)}",
        )
    return connector.list_tables(source)


def find_connector(source: IngestSource) -> Connector:
    """Returns the connector of a source; raises ConfigError for an unknown one, and for wrong settings."""
    connector = _BY_NAME.get(source.connector)
    if connector is None:
        raise ConfigError(
            f"source {source.name}: there is no connector "
            f"{source.connector!r}{suggest_nearest(source.connector, _BY_NAME)}.",
            expected=", ".join(_BY_NAME),
            fix=_THROUGH_KAFKA if source.connector.lower() in _UNTESTED else None,
        )
    keys, given = connector.keys, source.connection
    wrong = [f"unknown key `{key}`{suggest_nearest(key, keys)}" for key in given if key not in keys]
    wrong += [f"`{key}` is missing" for key in connector.required if key not in given]
    wrong += list_wrong_values(connector.settings, given)
    if wrong:
        raise ConfigError(
            f"source {source.name}: its `meta.arctic.ingest` can't be used with connector {source.connector}.\n"
            + "\n".join(f"  - {text}" for text in wrong)
        )
    return connector
