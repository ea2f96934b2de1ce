"""Checks that the columns which a query reads of its sources can be read in the versions that a run compares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Scan
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Window
from arctic_runtime.sql.types import has_map, has_variant, read_type


def check_defaults(
    scans: Iterable[Scan], states: Mapping[str, SourceState | None], windows: Mapping[str, Window]
) -> None:
    """Raises NotMaintained if the query reads a default value that a version in `windows` does not give."""
    for scan in scans:
        state, window = states[str(scan.source)], windows[str(scan.source)]
        if state is None or not state.missing_defaults:
            continue
        versions = (version for version in (window.start, window.end) if version is not None)
        lacking = {name for version in versions for name in state.missing_defaults.get(version.snapshot, ())}
        for _, name in scan.fields:
            if name.lower() in lacking:
                raise NotMaintained(
                    "UNSUPPORTED",
                    f"{scan.source}.{name} has a default value for rows from before the column was added, which a "
                    "version that the run compares does not have",
                )


def check_images(
    scans: Iterable[Scan], states: Mapping[str, SourceState | None], changed: frozenset[TableName]
) -> None:
    """Raises NotMaintained if the query reads a map or variant column of a changed source, which can't be compared."""
    for scan in scans:
        state = states[str(scan.source)]
        assert state is not None
        names = {name.lower() for _, name in scan.fields}
        kinds = [read_type(column.type) for column in state.columns if column.name.lower() in names]
        is_read = {"map": any(map(has_map, kinds)), "variant": any(map(has_variant, kinds))}
        refused = next((kind for kind, is_there in is_read.items() if is_there), None)
        if scan.source in changed and refused:
            raise NotMaintained(
                "UNSUPPORTED",
                f"{scan.source} has changed, and the query reads a column with a {refused}, which can't be compared",
            )
