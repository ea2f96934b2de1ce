"""Assigns a folder's files to batches, so that every file is in exactly one batch even if the process dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from arctic_runtime.errors import CorruptState, SourceError
from arctic_runtime.ingest.transports.files.listing import Folder, SourceFile
from arctic_runtime.ingest.transports.files.log import FileLog
from arctic_runtime.thresholds import TransportThresholds


@dataclass(frozen=True)
class FileBatch:
    """A batch of files: its number, from 1, and the files in the order of their paths."""

    number: int
    files: tuple[SourceFile, ...]


class FileBatches:
    """Assigns the new files of a folder to batches; batches up to the number `kept_number` are in all tables already.

    Files that match none of `patterns` are ignored. New files are read in the order of their paths. A new file whose
    path sorts before one that was read is in a later batch.
    """

    def __init__(
        self, folder: Folder, patterns: Collection[str], log: FileLog, limits: TransportThresholds, kept_number: int
    ) -> None:
        """Reads the file log.

        Raises CorruptState if the log is empty although batches were read (`kept_number` is not 0).
        """
        self._folder = folder
        self._patterns = tuple(patterns)
        self._log = log
        self._limits = limits
        noted = log.list_batches()
        if kept_number and not noted:
            raise CorruptState(
                f"It is not known which files of {folder.location} were read.",
                expected=f"the files of {kept_number} batches in the source's file log",
                actual="none",
                fix="bring back the file log, or drop the source's tables, so that all files are read again",
            )
        self._last = max([kept_number, *noted])
        self._read = {file.path: file for files in noted.values() for file in files}
        self._noted = deque(FileBatch(number, files) for number, files in sorted(noted.items()) if number > kept_number)
        self._listed: deque[SourceFile] = deque()

    def take_next(self) -> FileBatch | None:
        """Returns the next batch, after adding it to the file log; None if there is no new file.

        Raises SourceError if a file that was read, or that an unfinished batch needs, was changed or deleted.
        """
        return self._take_noted_batch() if self._noted else self._take_new_batch()

    def _take_noted_batch(self) -> FileBatch:
        """Returns the next batch that an earlier process added to the file log, but did not write to all tables."""
        present = {file.path: file for file in self._folder.list_files()}
        batch = self._noted.popleft()
        for file in batch.files:
            check_unchanged(present.get(file.path), file, self._folder.location)
        return batch

    def _take_new_batch(self) -> FileBatch | None:
        if not self._listed:
            self._listed.extend(list(self._list_unread()))
        files = select_first_files(self._listed, self._limits.batch_files, self._limits.batch_bytes)
        if not files:
            return None
        batch = FileBatch(self._last + 1, files)
        self._log.add_batch(batch.number, files)
        self._last = batch.number
        self._read |= {file.path: file for file in files}
        for _ in files:
            self._listed.popleft()
        return batch

    def _list_unread(self) -> Iterable[SourceFile]:
        for file in self._folder.list_files():
            if file.path in self._read:
                check_unchanged(file, self._read[file.path], self._folder.location)
            elif any(fnmatchcase(file.path, pattern) for pattern in self._patterns):
                yield file


def check_unchanged(current: SourceFile | None, expected: SourceFile, where: str) -> None:
    """Raises SourceError if a file no longer exists (None) or differs from `expected`; `where` names the folder."""
    if current == expected:
        return
    what = "is gone before all of its events were kept" if current is None else "has changed since it was read"
    shown = "no such file" if current is None else _describe_file(current)
    raise SourceError(
        f"A file of the source {what}.",
        where=f"{where}/{expected.path}",
        expected=_describe_file(expected),
        actual=shown,
        fix="bring back the file as it was, and write new events into a file with a new name",
    )


def _describe_file(file: SourceFile) -> str:
    return f"{file.bytes} bytes, modified {file.modified / 1e6:.6f} seconds after 1970"


def select_first_files(files: Iterable[SourceFile], most_files: int, most_bytes: int) -> tuple[SourceFile, ...]:
    """Returns the first files, at most `most_files` and `most_bytes` bytes, but at least one if there are any."""
    chosen: list[SourceFile] = []
    total = 0
    for file in files:
        total += file.bytes
        if chosen and (len(chosen) >= most_files or total > most_bytes):
            break
        chosen.append(file)
    return tuple(chosen)
