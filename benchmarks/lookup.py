"""One row by its key, against all of its table: the bytes that each reads of the table's files."""

from __future__ import annotations

from arctic_runtime.catalog.lookup import Lookup, estimate_full_scan_bytes, look_up_row
from arctic_runtime.model.table import Model
from benchmarks.lake import Lake, events_model, lake
from benchmarks.measure import Measurement, seconds

TARGET = 1 / 50
CHANGED = 0.01
KEYS = 20


def measure(rows: int, merges: int = 2) -> list[Measurement]:
    """The largest part of the table that any lookup reads, of keys that are spread over it and of those beyond it.

    The table has taken in 1% of changes several times, merged on write; another merged on read has the last unmerged.
    """
    with lake(rows) as bench:
        bench.fill_events()
        models = {"on_write": events_model("written"), "on_read": events_model("read", merge="on_read")}
        for turn in range(merges + 1):
            if turn:
                bench.append_changes(CHANGED, turn)
            for model in models.values():
                bench.run(model)
        return [_measured(bench, name, model) for name, model in models.items()]


def _measured(bench: Lake, name: str, model: Model) -> Measurement:
    keys = [place * bench.rows // KEYS for place in range(KEYS)] + [bench.rows + 1]
    lookups: list[Lookup] = []
    taken = [seconds(lambda key=key: lookups.append(look_up_row(bench.reader, model, [str(key)]))) for key in keys]  # type: ignore[misc]
    whole = estimate_full_scan_bytes(bench.reader, model)
    detail = {
        "bytes of the table": whole,
        "bytes of a lookup": [lookup.bytes_read for lookup in lookups],
        "files opened": [lookup.files_opened for lookup in lookups],
        "seconds": [round(value, 3) for value in taken],
    }
    share = max(lookup.bytes_read for lookup in lookups) / whole
    return Measurement(f"lookup of {bench.rows:,}, {name}: bytes / full scan", share, "x", TARGET, False, detail)
