"""The file with the metrics of commands in Prometheus's text format, as node_exporter's textfile collector reads it."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from arctic_runtime.errors import ConfigError
from arctic_runtime.service.telemetry.command_metrics import COMMAND_METRICS, METRICS_BY_NAME, Series, fold_samples
from arctic_runtime.thresholds import TelemetryThresholds

HEAD = "# Metrics of dbt-arctic's commands."
"""First line of each file; a file that begins otherwise belongs to somebody else, and is not replaced."""

_LINE = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>[-+.\w]+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPES = {"\\": "\\\\", "\n": "\\n", '"': '\\"'}
_UNESCAPES = {escaped: plain for plain, escaped in _ESCAPES.items()}


def add_to_file(file: Path, samples: Mapping[Series, float], limits: TelemetryThresholds) -> None:
    """Adds samples to the series of a file, and replaces it in one step; other series stay as they are.

    Commands that end at the same time wait for each other, for some seconds. Raises OSError if the file can't be
    read or written, and ConfigError if its folder does not exist or if it belongs to somebody else.
    """
    if not file.parent.is_dir():
        raise ConfigError("the folder of the metrics file does not exist.", actual=str(file.parent), fix="create it")
    with _lock_folder(file.parent, limits):
        written = file.read_text(encoding="utf-8") if file.exists() else ""
        if written.strip() and not written.startswith(HEAD):
            raise ConfigError(
                "the metrics file has a content that is not of dbt-arctic.",
                expected=f"no file, or one that begins with {HEAD}",
                actual=str(file),
                fix="name another file",
            )
        _replace_file(file, format_series(fold_samples(parse_series(written), samples.items())))


def format_series(values: Mapping[Series, float]) -> str:
    """Formats series in Prometheus's text format, in the order of the declared metrics and of their labels."""
    lines = [HEAD]
    for metric in COMMAND_METRICS:
        own = sorted((labels, value) for (name, labels), value in values.items() if name == metric.name)
        if own:
            lines.append(f"# HELP {metric.name} {metric.meaning}")
            lines.append(f"# TYPE {metric.name} {'counter' if metric.is_counter else 'gauge'}")
        for labels, value in own:
            pairs = (f'{name}="{_escape_text(text)}"' for name, text in zip(metric.labels, labels, strict=True))
            lines.append(f"{metric.name}{{{','.join(pairs)}}} {value!r}")
    return "\n".join(lines) + "\n"


def parse_series(text: str) -> dict[Series, float]:
    """Parses the series of a text that `format_series` wrote; leaves out those of metrics that are not declared."""
    return dict(_list_series(text))


def _list_series(text: str) -> Iterator[tuple[Series, float]]:
    for match in filter(None, map(_LINE.fullmatch, text.split("\n"))):
        metric = METRICS_BY_NAME.get(match["name"])
        labels = {name: _unescape_text(value) for name, value in _LABEL.findall(match["labels"])}
        if metric is not None and labels.keys() == set(metric.labels):
            with suppress(ValueError):
                yield (metric.name, tuple(labels[name] for name in metric.labels)), float(match["value"])


def _escape_text(text: str) -> str:
    return re.sub(r'[\\\n"]', lambda match: _ESCAPES[match[0]], text)


def _unescape_text(text: str) -> str:
    return re.sub(r'\\[\\n"]', lambda match: _UNESCAPES[match[0]], text)


def _replace_file(file: Path, text: str) -> None:
    """Replaces a file in one step, also if the machine stops meanwhile; the new one is readable as others are."""
    draft = file.with_name(f".{file.name}.tmp")
    try:
        with draft.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


@contextmanager
def _lock_folder(folder: Path, limits: TelemetryThresholds) -> Iterator[None]:
    """Keeps other commands from files of a folder until the context ends; raises OSError if one holds it too long."""
    until = time.monotonic() + limits.lock_seconds
    handle = os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(limits.lock_poll_seconds)
        yield
    finally:
        os.close(handle)
