"""Writes files that pass secrets to Java, since every user of a machine can read command lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_SEPARATORS = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
_KEY_ESCAPES = {**_SEPARATORS, " ": r"\ ", "=": r"\=", ":": r"\:", "#": r"\#", "!": r"\!"}
_IN_QUOTES = {**_SEPARATORS, '"': r"\""}


def write_private(file: Path, text: str) -> Path:
    """Writes a file that only this user can read, and returns its path; raises FileExistsError if it exists."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
    return file


def format_properties(settings: Mapping[str, str]) -> str:
    """Formats settings as the text of a file for `spark-submit --properties-file`."""
    return "".join(
        f"{_escape_text(key, _KEY_ESCAPES)}={_escape_text(value, _SEPARATORS)}\n" for key, value in settings.items()
    )


def format_arguments(arguments: Sequence[str]) -> str:
    """Formats command-line arguments as the text of a file for `java @FILE`."""
    return "".join(f'"{_escape_text(argument, _IN_QUOTES)}"\n' for argument in arguments)


def _escape_text(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)
