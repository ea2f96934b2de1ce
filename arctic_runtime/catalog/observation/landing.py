"""Observes landing tables, to which other programs append events, from their metadata and manifests only."""

from __future__ import annotations

from arctic_runtime.catalog.observation.manifests import get_sequence, list_manifests, read_entries
from arctic_runtime.catalog.observation.tables import observe_snapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.expiry import AppendedFile, LandingState, read_ages, read_trimmed_age
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMMIT_TIMES, KIND


def observe_landing(reader: CatalogReader, name: TableName) -> LandingState:
    """Returns the state of a landing table: its live data files, its snapshots and the record of deleted files.

    Raises ConfigError if there is no such table, if it is one of arctic's own, or if its format version is 1, in which
    commits have no order.
    """
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

    try:
        table = reader.load_table(name.schema, name.name)
    except NoSuchTableError:
        raise ConfigError(f"{name}: there is no such table in the catalog") from None
    if KIND in table.properties or table.format_version < 2:
        kind_found = f"a table of arctic ({table.properties[KIND]})" if KIND in table.properties else "format version 1"
        raise ConfigError(
            f"{name}: its rows can't expire as those of a landing table.",
            expected="a table of format version 2 or newer that other programs append to",
            actual=kind_found,
        )
    snapshots, head = observe_snapshots(reader, name), table.current_snapshot()
    assert snapshots is not None
    files = [
        AppendedFile(file.file_path, get_sequence(entry, manifest), file.record_count, file.file_size_in_bytes)
        for manifest in (list_manifests(table, head) if head else ())
        if manifest.content == ManifestContent.DATA
        for entry in read_entries(table, manifest)
        if entry.status != ManifestEntryStatus.DELETED and (file := entry.data_file)
    ]
    return LandingState(
        name,
        str(table.metadata.table_uuid),
        tuple(files),
        snapshots,
        read_ages(table.properties.get(COMMIT_TIMES)),
        read_trimmed_age(table.properties),
    )
