"""Files that do not come are told as well: the source has nothing that was not read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError, CorruptState, SourceError
from arctic_runtime.ingest.transports.files.listing import Folder, SourceFile
from arctic_runtime.ingest.transports.files.transport import FileBatch, FileBatches, Files, select_first_files
from arctic_runtime.thresholds import TransportThresholds

LIMITS = TransportThresholds()


@dataclass
class Noted:
    """A file log in memory, as it is after a process died."""

    entries: dict[int, tuple[SourceFile, ...]] = field(default_factory=dict)

    def list_batches(self) -> Mapping[int, tuple[SourceFile, ...]]:
        return dict(self.entries)

    def add_batch(self, batch: int, files: Iterable[SourceFile]) -> None:
        self.entries[batch] = tuple(files)


def opened(folder: Path, log: Noted, kept: int = 0, pattern: str = "*", files: int = 1000) -> FileBatches:
    return FileBatches(Folder(str(folder)), [pattern], log, replace(LIMITS, batch_files=files), kept)


def paths(batch: FileBatch | None) -> list[str]:
    assert batch is not None
    return [file.path for file in batch.files]


def write(folder: Path, *names: str, text: str = "{}\n") -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@settings(max_examples=60)
@given(st.permutations(range(10)), st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_every_file_is_read_exactly_once_wherever_processes_die(
    coming: list[int], steps: list[tuple[int, bool]]
) -> None:
    """In each step files come, in any order, and a process keeps a batch, or dies before it could."""
    log, kept, read = Noted(), 0, []
    with TemporaryDirectory() as name:
        folder = Path(name)
        batches = opened(folder, log, files=3)
        for count, dies in [*steps, *[(10, False)] * 20]:
            write(folder, *(f"{number}.json" for number in coming[:count]))
            coming = coming[count:]
            batch = batches.take_next()
            if batch is None:
                continue
            assert paths(batch) == sorted(paths(batch))
            assert len(batch.files) <= 3
            if dies:
                batches = opened(folder, log, kept, files=3)
            else:
                read += paths(batch)
                kept = batch.number
    assert sorted(read) == [f"{number}.json" for number in range(10)]


def test_a_batch_that_was_not_kept_comes_again_with_the_same_files(tmp_path: Path) -> None:
    log = Noted()
    write(tmp_path, "b", "d")
    assert paths(opened(tmp_path, log).take_next()) == ["b", "d"]
    write(tmp_path, "a", "c")
    again = opened(tmp_path, log)
    first, second = again.take_next(), again.take_next()
    assert (paths(first), paths(second)) == (["b", "d"], ["a", "c"])
    assert again.take_next() is None


def test_a_file_with_a_lower_name_that_comes_late_is_read_once(tmp_path: Path) -> None:
    log = Noted()
    write(tmp_path, "2024/b", "2024/c")
    batches = opened(tmp_path, log)
    assert paths(batches.take_next()) == ["2024/b", "2024/c"]
    write(tmp_path, "2023/z", "2024/a")
    assert paths(batches.take_next()) == ["2023/z", "2024/a"]
    assert opened(tmp_path, log, kept=2).take_next() is None


def rewritten(folder: Path) -> None:
    write(folder, "a", text="{}\n{}\n")


def touched(folder: Path) -> None:
    os.utime(folder / "a", ns=(1, 1))


@pytest.mark.parametrize("change", [rewritten, touched])
def test_a_file_that_changed_after_it_was_read_is_an_error(tmp_path: Path, change: Callable[[Path], None]) -> None:
    write(tmp_path, "a")
    log = Noted()
    batches = opened(tmp_path, log)
    batches.take_next()
    change(tmp_path)
    for one in (batches, opened(tmp_path, log, kept=1)):
        with pytest.raises(SourceError, match=r"has changed since it was read(?s:.*)/a\n"):
            one.take_next()


def test_a_file_that_is_gone_is_an_error_only_before_its_events_are_kept(tmp_path: Path) -> None:
    write(tmp_path, "a")
    log = Noted()
    opened(tmp_path, log).take_next()
    (tmp_path / "a").unlink()
    assert opened(tmp_path, log, kept=1).take_next() is None
    with pytest.raises(SourceError, match="is gone before all of its events were kept"):
        opened(tmp_path, log, kept=0).take_next()


def test_a_log_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorruptState, match="not known which files"):
        opened(tmp_path, Noted(), kept=3)


def test_files_that_are_not_ended_or_not_asked_for_are_left_alone(tmp_path: Path) -> None:
    write(
        tmp_path, "orders/1.json", "orders/.2.json", "_tmp/3.json", "orders/4.json._COPYING_", "orders/5.txt", "6.json"
    )
    batches = opened(tmp_path, Noted(), pattern="orders/*.json")
    assert paths(batches.take_next()) == ["orders/1.json"]
    assert batches.take_next() is None


@given(st.lists(st.integers(0, 100), max_size=30), st.integers(1, 10), st.integers(0, 300))
def test_batches_stay_within_their_limits(sizes: list[int], most_files: int, most_bytes: int) -> None:
    files = [SourceFile(f"{number:03}", size, 0) for number, size in enumerate(sizes)]
    chosen = select_first_files(files, most_files, most_bytes)
    assert list(chosen) == files[: len(chosen)]
    assert bool(chosen) == bool(files)
    assert len(chosen) <= most_files
    assert len(chosen) == 1 or sum(file.bytes for file in chosen) <= most_bytes
    if len(chosen) < min(len(files), most_files):
        assert sum(file.bytes for file in files[: len(chosen) + 1]) > most_bytes


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"can't be listed(?s:.*)nowhere"):
        Folder(str(tmp_path / "nowhere")).list_files()


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ftp://somewhere"):
        Folder("ftp://somewhere/else")


def test_a_name_that_spark_cannot_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "12:30.json")
    with pytest.raises(SourceError, match=r"12:30\.json(?s:.*)rename"):
        Folder(str(tmp_path)).list_files()


@given(st.text(st.sampled_from("a b%20#?[]{}*\\ü+&="), min_size=1, max_size=8))
def test_addresses_lead_back_to_paths(name: str) -> None:
    from urllib.parse import quote

    for location, shown in (("/data/a b#c", "file:/data/a%20b%23c/"), ("file:/x", "file:/x/")):
        assert Folder(location).to_path(shown + quote(name)) == name


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
