"""A source's dead letters are applied, by one process at a time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.formats.event_format import Format
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.writing.lease import SourceLease, taken
from arctic_runtime.ingest.writing.ledger import Ledger
from arctic_runtime.ingest.writing.replay import LetterReplay, Replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replay_dead_letters(
    source: IngestSource, form: Format, reader: CatalogReader, session: Callable[[], SparkSession]
) -> Iterator[Replayed]:
    """Applies the dead letters of a source to its tables, one after the other; yields what became of those of each.

    Tables without dead letters are left out. Raises ConfigError where another process ingests the source, or has taken
    over meanwhile.
    """
    spark = functools.cache(session)
    ledger = Ledger(source.ledger, reader, spark)
    if not ledger.dead():
        return
    ledger.ensure()
    lease = SourceLease(source.ledger, reader, spark)
    if (other := lease.take()) is not None:
        raise taken(source.ledger, other)
    lost = threading.Event()
    try:
        with lease.kept(lost.set):
            for table in source.tables:
                if lost.is_set():
                    return
                done = LetterReplay(table, ledger, reader, spark, form).run()
                if done.read:
                    yield done
    finally:
        lease.end()
