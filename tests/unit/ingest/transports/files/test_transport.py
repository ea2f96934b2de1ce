"""Files that do not come are told as well: the source has nothing that was not read."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from arctic_runtime.ingest.transports.files.listing import Folder
from arctic_runtime.ingest.transports.files.transport import Files
from arctic_runtime.thresholds import TransportThresholds
from tests.unit.ingest.transports.files.test_batches import Noted


def no_spark() -> None:
    raise AssertionError("no line is to be counted")


def test_a_folder_without_new_files_confirms_the_position(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("1")
    log = Noted()
    files = Files(Folder(str(tmp_path)), {"t": "*"}, log, no_spark, replace(TransportThresholds(), idle_seconds=0))  # type: ignore[arg-type]
    log.add_batch(1, Folder(str(tmp_path)).list_files())
    files.open_at('{"batch": 1}')
    before = datetime.now(timezone.utc)
    batches = files.read_batches(until_drained=False)
    first, second = next(batches), next(batches)
    assert (first.position, first.count, first.tables) == ('{"batch": 1}', 0, ())
    assert first.caught_up is not None
    assert second.caught_up is not None
    assert before <= first.caught_up < second.caught_up
    files.close_source()
