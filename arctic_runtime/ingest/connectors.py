"""Every connector by the name that users write, and how it makes the transport and the format of a source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import EventFormat
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.transport import Transport
from arctic_runtime.profile import nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Connection:
    """The way in of a source: its transport, and the format of its events."""

    transport: Transport
    form: EventFormat


Connect = Callable[[IngestSource, "Callable[[], SparkSession]"], Connection]

CONNECTORS: Mapping[str, Connect] = MappingProxyType({})
"""Connector → what makes its connection. It raises ConfigError for settings that it does not know."""


def connect(source: IngestSource, session: Callable[[], SparkSession]) -> Connection:
    """The connection of a source; raises ConfigError for an unknown connector or settings that can't be used."""
    make = CONNECTORS.get(source.connector)
    if make is None:
        raise ConfigError(
            f"source {source.name}: there is no connector {source.connector!r}"
            f"{nearest(source.connector, CONNECTORS)}.\n  expected: {', '.join(CONNECTORS)}"
        )
    return make(source, session)
