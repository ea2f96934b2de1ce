"""Writes the rows of an operation to a file or to standard output, in a format for programs."""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.row_formats import ROW_FORMATS, RowFormat, Rows

TEXT = "text"


def add_arguments(command: ArgumentParser) -> None:
    """Adds the options `--format` and `--output` to a command whose rows can be exported."""
    formats = (TEXT, *sorted(ROW_FORMATS))
    command.add_argument(
        "--format",
        choices=formats,
        default=TEXT,
        help="text for people (default), or all rows without Spark: an Arrow IPC stream, CSV, or a JSON object a line",
    )
    command.add_argument(
        "--output", type=Path, default=None, metavar="FILE", help="write to this file (default: the standard output)"
    )


def choose_format(
    options: Namespace, formats: Mapping[str, RowFormat] = ROW_FORMATS, plain: str = TEXT
) -> RowFormat | None:
    """Returns the one of `formats` that a user chose for the rows; None for the usual output for people, `plain`.

    Raises ConfigError for options that exclude each other.
    """
    chosen = getattr(options, "format", plain)
    if chosen == plain:
        if getattr(options, "output", None) is not None:
            raise ConfigError("`--output` needs a format.", fix=f"add --format {', '.join(sorted(formats))}")
        return None
    if options.json:
        raise ConfigError("`--json` and `--format` exclude each other.", fix="leave one of the two out")
    if formats[chosen].is_binary and options.output is None and sys.stdout.isatty():
        raise ConfigError(
            f"The format {chosen} is binary, and a terminal can't show it.", fix="redirect it, or add --output FILE"
        )
    return formats[chosen]


def write_rows(rows: Rows, row_format: RowFormat, output: Path | None) -> None:
    """Writes rows to the file `output`, or if that is None, to standard output.

    The file is complete as soon as it exists: it is written under another name and then renamed. If the program that
    reads standard output ends early, the rest of the rows is not written.
    """
    parts = row_format.encode(rows.schema, rows.batches)
    if output is not None:
        _write_file(parts, output)
        return
    try:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Python flushes standard output once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_file(parts: Iterable[bytes], output: Path) -> None:
    if output.is_dir():
        raise ConfigError(f"{output} can't be written: it is a folder.", fix="give the name of a file")
    try:
        scratch = tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent)
    except OSError as error:
        raise ConfigError(f"{output} can't be written.", actual=str(error), fix="give another file") from error
    with scratch as folder:
        written = Path(folder, output.name)
        with written.open("wb") as file:
            file.writelines(parts)
        written.replace(output)
