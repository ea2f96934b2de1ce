"""Damages files and catalog rows of a warehouse by chance from a seed, and mends them again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from arctic_runtime.catalog.observation.manifests import get_referenced_path, list_manifests, read_entries
from tests.spark.prebuilt import connection
from tests.spark.warehouse import Warehouse

TAIL = 8
"""Number of bytes at the end of a Parquet file: the length of its footer, and its magic, of four bytes each."""

Change = Callable[[bytes, random.Random], bytes | None]
"""Makes of a file's content that of the damaged file; None if the file is to be deleted."""


def flip(content: bytes, chance: random.Random, start: int = 0, end: int | None = None) -> bytes:
    """Flips one bit of the bytes from `start` to `end`."""
    place = chance.randrange(start, len(content) if end is None else end)
    return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]


def find_footer(content: bytes) -> int:
    return len(content) - TAIL - int.from_bytes(content[-TAIL:-4], "little")


CUTS: dict[str, Change] = {
    "cut": lambda content, chance: content[: chance.randrange(1, len(content))],
    "empty": lambda content, chance: b"",
    "gone": lambda content, chance: None,
}
FLIP: dict[str, Change] = {"flip": flip}
PARQUET: dict[str, Change] = {
    "page": lambda content, chance: flip(content, chance, 4, find_footer(content)),
    "footer": lambda content, chance: flip(content, chance, find_footer(content), len(content) - TAIL),
    "magic": lambda content, chance: flip(content, chance, len(content) - 4),
}
CHANGES: Mapping[str, Mapping[str, Change]] = {
    "data": PARQUET | CUTS,
    "vectors": FLIP | CUTS,
    "manifest": FLIP | CUTS,
    "list": FLIP | CUTS,
    "metadata": FLIP | CUTS,
}
"""Kinds of files, and the ways in which each is damaged."""


@dataclass(frozen=True)
class TableFile:
    """A file that the current version of a table or view needs; `kind` is one of CHANGES."""

    table: str
    kind: str
    path: Path


def list_files(lake: Warehouse) -> list[TableFile]:
    """Lists the files of the current versions of all tables, of change tables those of all commits."""
    files: dict[Path, TableFile] = {}
    for name in lake.reader.list_tables(lake.namespace):
        table = lake.reader.load_table(lake.namespace, name)
        current = table.current_snapshot()
        named = [("metadata", table.metadata_location)]
        if current is not None:
            named.append(("list", current.manifest_list))
            for manifest in list_manifests(table, current):
                named.append(("manifest", manifest.manifest_path))
                named += [
                    ("vectors" if get_referenced_path(entry.data_file) else "data", entry.data_file.file_path)
                    for entry in read_entries(table, manifest)
                    if entry.status.name != "DELETED"
                ]
        for kind, address in named:
            path = Path(urlsplit(address).path)
            files[path] = TableFile(name, kind, path)
    for name in lake.reader.list_views(lake.namespace):
        path = Path(urlsplit(lake.reader.get_view_file(lake.namespace, name) or "").path)
        files[path] = TableFile(name, "metadata", path)
    return sorted(files.values(), key=lambda file: (file.table, file.kind, file.path.stat().st_size))


@contextmanager
def damaged(file: TableFile, how: str, chance: random.Random, has_checksums: bool = True) -> Iterator[None]:
    """Damages a file until the block ends; without checksums it is as in a store that keeps none."""
    sums = file.path.with_name(f".{file.path.name}.crc")
    kept = {path: path.read_bytes() for path in (file.path, sums) if path.exists()}
    content = CHANGES[file.kind][how](kept[file.path], chance)
    if content is None:
        file.path.unlink()
    else:
        file.path.write_bytes(content)
    if not has_checksums:
        sums.unlink(missing_ok=True)
    try:
        yield
    finally:
        for path, before in kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(before)


ROWS: Mapping[str, tuple[str, str]] = {
    "gone": ("delete from iceberg_tables where table_namespace = ? and table_name = ?", ""),
    "without file": ("update iceberg_tables set metadata_location = null", "where"),
    "of a lost file": ("update iceberg_tables set metadata_location = metadata_location || 'x'", "where"),
    "of another file": (
        "update iceberg_tables set metadata_location = (select other.metadata_location from iceberg_tables other "
        "where other.table_namespace = iceberg_tables.table_namespace "
        "and other.table_name not in (iceberg_tables.table_name) limit 1)",
        "where",
    ),
    "of a former file": ("update iceberg_tables set metadata_location = previous_metadata_location", "where"),
    "of a bad kind": ("update iceberg_tables set iceberg_type = 'TABLF'", "where"),
}
"""Ways in which the row of a table in the catalog is damaged, each a statement of SQL."""


@contextmanager
def damaged_row(lake: Warehouse, table: str, how: str) -> Iterator[None]:
    """Damages the row of a table in the catalog until the block ends."""
    statement, where = ROWS[how]
    own = "table_namespace = ? and table_name = ?"
    with closing(connection(lake)) as catalog:
        (before,) = catalog.execute(f"select * from iceberg_tables where {own}", (lake.namespace, table)).fetchall()
        with catalog:
            catalog.execute(f"{statement} where {own}" if where else statement, (lake.namespace, table))
    try:
        yield
    finally:
        with closing(connection(lake)) as catalog, catalog:
            catalog.execute(f"delete from iceberg_tables where {own}", (lake.namespace, table))
            catalog.execute(f"insert into iceberg_tables values ({', '.join('?' * len(before))})", before)
