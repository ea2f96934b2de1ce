"""Completes the metadata of a table before a build publishes it: a tag for the build's cut, and the original log.

A table may also get properties, for what the build has found out about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cut:
    """The tag that all tables of a build get, set at the time `at_ms`, in milliseconds since 1970; empty for none.

    Iceberg's expiry may drop it after `age_ms`. `properties` are those that one table gets besides.
    """

    tag: str
    age_ms: int
    at_ms: int
    properties: Mapping[str, str] = field(default_factory=dict)


def complete_metadata(
    metadata: Mapping[str, Any], file: str, cut: Cut, copies: Mapping[str, str], snapshot: int | None = None
) -> dict[str, Any]:
    """Returns the JSON of a table's metadata with a cut: its properties, and its tag at `snapshot`, or at the newest.

    A snapshot that the table does not have gets no tag. `file` is the metadata file with `metadata`. `copies` maps
    copies of metadata files to the files; in the log of earlier files, each copy is replaced by the file itself.
    """
    log = [*metadata.get("metadata-log", ()), {"metadata-file": file, "timestamp-ms": metadata["last-updated-ms"]}]
    files = [{**entry, "metadata-file": copies.get(entry["metadata-file"], entry["metadata-file"])} for entry in log]
    refs = dict(metadata.get("refs", {}))
    tagged = metadata.get("current-snapshot-id") if snapshot is None else snapshot
    if cut.tag and tagged in {known["snapshot-id"] for known in metadata.get("snapshots", ())}:
        refs[cut.tag] = {"snapshot-id": tagged, "type": "tag", "max-ref-age-ms": cut.age_ms}
    updated = max(cut.at_ms, metadata["last-updated-ms"])
    properties = {**metadata.get("properties", {}), **cut.properties}
    changed = {"refs": refs, "metadata-log": files, "last-updated-ms": updated, "properties": properties}
    return {**metadata, **changed}
