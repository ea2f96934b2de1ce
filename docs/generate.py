"""Writes what follows from the code, parts of these pages and macros: `python -m docs.generate`, or `make docs`.

A generated part stands between two comments, `<!-- generated: NAME -->` and `<!-- end of generated: NAME -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from arctic_runtime.model.properties import describe_stored_names
from arctic_runtime.plan.config.configuration import describe_configuration
from arctic_runtime.plan.config.foreign_settings import describe_foreign_settings
from arctic_runtime.service.telemetry.declared_metrics import describe_metrics
from docs.generate_commands import describe_commands
from docs.generate_macros import MACROS, macros_text
from docs.generate_packages import describe_layout, describe_parts
from docs.generate_readers import describe_flink_reads, describe_trino_reads

PAGES = Path(__file__).parent
PARTS: Mapping[str, Callable[[], str]] = {
    "stored names": describe_stored_names,
    "model keys": describe_configuration,
    "foreign settings": describe_foreign_settings,
    "metrics": describe_metrics,
    "parts": describe_parts,
    "layout": describe_layout,
    "commands": describe_commands,
    "trino reads": describe_trino_reads,
    "flink reads": describe_flink_reads,
}
_PART = re.compile(r"<!-- generated: (?P<name>[\w ]+) -->\n.*?<!-- end of generated: (?P=name) -->", re.DOTALL)


def generated(text: str) -> str:
    """The same page, whose generated parts are as the code says."""
    return _PART.sub(_part, text)


def _part(found: re.Match[str]) -> str:
    name = found["name"]
    return f"<!-- generated: {name} -->\n{PARTS[name]()}\n<!-- end of generated: {name} -->"


def main() -> None:
    MACROS.write_text(macros_text(), encoding="utf-8")
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if generated(text) != text:
            page.write_text(generated(text), encoding="utf-8")


if __name__ == "__main__":
    main()
