"""Writes what follows from the code, parts of these pages and macros: `python -m docs.generate`, or `make docs`.

A generated part stands between two comments, `<!-- generated: NAME -->` and `<!-- end of generated: NAME -->`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from arctic_runtime.ingest.source import describe_ingest_settings, describe_table_settings
from arctic_runtime.model.properties import describe_stored_names
from arctic_runtime.plan.config.configuration import describe_configuration
from arctic_runtime.plan.config.foreign_settings import describe_foreign_settings
from arctic_runtime.service.settings import describe_agent_settings, describe_http_settings, describe_upkeep_settings
from arctic_runtime.service.telemetry.command_metrics import describe_command_metrics
from arctic_runtime.service.telemetry.configured import describe_telemetry_settings
from arctic_runtime.service.telemetry.declared_metrics import describe_metrics
from dbt.adapters.arctic.profile_keys import describe_profile_keys
from docs.generate_commands import describe_commands, describe_examples
from docs.generate_macros import MACROS, macros_text
from docs.generate_packages import describe_layout, describe_parts
from docs.generate_readers import FLINK_READS, PYTHON_READS, TRINO_READS, describe_readers, describe_reads

PAGES = Path(__file__).parent
PARTS: Mapping[str, Callable[[], str]] = {
    "stored names": describe_stored_names,
    "model keys": describe_configuration,
    "foreign settings": describe_foreign_settings,
    "profile keys": describe_profile_keys,
    "ingest settings": describe_ingest_settings,
    "table settings": describe_table_settings,
    "upkeep settings": describe_upkeep_settings,
    "http settings": describe_http_settings,
    "agent settings": describe_agent_settings,
    "metrics": describe_metrics,
    "command metrics": describe_command_metrics,
    "telemetry settings": describe_telemetry_settings,
    "parts": describe_parts,
    "layout": describe_layout,
    "commands": describe_commands,
    "command examples": describe_examples,
    "readers": describe_readers,
    "daft reads": describe_reads(PYTHON_READS, "Daft"),
    "datafusion reads": describe_reads(PYTHON_READS, "DataFusion"),
    "clickhouse reads": describe_reads(PYTHON_READS, "ClickHouse"),
    "trino reads": describe_reads(TRINO_READS, "Trino"),
    "flink reads": describe_reads(FLINK_READS, "Flink"),
}
_PART = re.compile(r"<!-- generated: (?P<name>[\w ]+) -->\n.*?<!-- end of generated: (?P=name) -->", re.DOTALL)
_LINK = re.compile(r"\]\((?=[\w-]+\.md)")


def list_pages() -> list[Path]:
    """Returns all pages, those of folders too."""
    return sorted(PAGES.rglob("*.md"))


def update_parts(page: Path) -> str:
    """Returns the text of a page, whose generated parts are as the code says."""
    way_up = "../" * len(page.relative_to(PAGES).parents[:-1])
    return _PART.sub(lambda match: _write_part(match["name"], way_up), page.read_text(encoding="utf-8"))


def _write_part(name: str, way_up: str) -> str:
    """Writes a part with its links, which the code writes as on a page in `docs`, for a page that is deeper."""
    text = _LINK.sub(f"]({way_up}", PARTS[name]())
    return f"<!-- generated: {name} -->\n{text}\n<!-- end of generated: {name} -->"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description="write what follows from the code")
    parser.add_argument("--check", action="store_true", help="write nothing; fail and name the files that would change")
    is_check = parser.parse_args(arguments).check
    texts = {MACROS: macros_text(), **{page: update_parts(page) for page in list_pages()}}
    outdated = {file: text for file, text in texts.items() if text != file.read_text(encoding="utf-8")}
    if is_check and outdated:
        parser.exit(1, "".join(f"{file} is not as the code says: run `make docs`\n" for file in outdated))
    for file, text in outdated.items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
