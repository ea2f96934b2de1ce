"""The documentation: its links lead somewhere, its examples are accepted, and its lists are the code's."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import jinja2
import pytest
import yaml

from arctic_runtime.ingest.connectors import CONNECTORS
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.rewrite.join_placement import describe_joins
from arctic_runtime.ivm.strategies.maintain import Deltas, Facts, plan_maintenance
from arctic_runtime.model import step, table
from arctic_runtime.model.columns import RESERVED, Column
from arctic_runtime.model.files import layout
from arctic_runtime.model.files.compaction import CompactionMode
from arctic_runtime.model.files.layout import MAX_DEPTH, Placement
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    BASE_REWRITE_PREFIX,
)
from arctic_runtime.plan.config import configure as configuration
from arctic_runtime.plan.config.configuration import KEYS
from arctic_runtime.plan.refresh import decide, increment
from arctic_runtime.thresholds import SHIPPED, Thresholds
from dbt.adapters.arctic.cli import build_parser, list_command_names
from dbt.adapters.arctic.credentials import ArcticCredentials
from dbt.adapters.arctic.profile_keys import PROFILE_KEYS

ROOT = Path(__file__).parents[3]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "sample_project/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
MODELS = {file.stem for file in (ROOT / "sample_project" / "models").rglob("*.sql")}

MACROS_IN_EXAMPLES = (
    *("ref", "source", "changes", "quarantine", "run_query"),
    *("arctic_as_of", "arctic_valid_at", "arctic_current"),
)

LARGEST_PICTURE_BYTES = 200_000
_DELAY = "rows of a source until DWS shows them, 95th percentile; `dbt run` in a loop / a service"
_INGESTED = "commit in PostgreSQL until its ODS table shows it, 99th percentile"
_WINDOW = "window of 30 days with 5 million rows, a day later: table / ours; in groups"
_PEERS = "the same, 2.5 million rows: `on_write` / Delta Lake; Hudi copy-on-write; merge-on-read; Paimon; "
_PEERS += "with deletion vectors"
_MERGE = "of these, writing alone: `on_write` / merge-on-read MERGE"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_MODEL = re.compile(r"`((?:ods|dwd|dws)_\w+)`")
# Addresses of registries, folders of one machine and numbers of talks about the work have no place in a page. Folders
# that every system has for services do, and paths of HTTP.
_UNWANTED = re.compile(
    r"https?://\S+/simple\b|\bmaven\b|https?://repo"
    r"|(?<![\w.~:/])/(?!(?:api|etc|opt|srv|var)/)[a-z]+/\w|(?<!\w)#\d",
    re.IGNORECASE,
)


pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


class Block(NamedTuple):
    """A fenced block: the page that it is on, its language and its text."""

    page: str
    language: str
    text: str


def read(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(*languages: str) -> list[Block]:
    return [
        Block(str(page.relative_to(ROOT)), language, text)
        for page in PAGES
        for language, text in _FENCE.findall(page.read_text())
        if language in languages
    ]


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors that a reader's Markdown viewer makes of the headings."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {heading.replace(" ", "-") for heading in kept}


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level or above."""
    level = heading.split(" ", maxsplit=1)[0]
    after = text.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^#{{1,{len(level)}}} ", after, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> dict[str, list[str]]:
    """First cell without its backticks → the other cells, of every line of a table that begins with code."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]
    return {cells[0].strip("`"): cells[1:] for cells in lines}


def configurations(sql: str) -> Iterator[dict[str, Any]]:
    """What the `config(…)` calls of a model set."""
    values: list[dict[str, Any]] = []

    def anything(*_: Any, **__: Any) -> str:
        return "x"

    def config(**given: Any) -> str:
        values.append(given)
        return ""

    names: dict[str, Any] = {**dict.fromkeys(MACROS_IN_EXAMPLES, anything), "arctic": {"changes": anything}}
    jinja2.Environment(extensions=["jinja2.ext.do"]).from_string(sql).render(config=config, **names)
    yield from values


def targets(document: Any) -> Iterator[dict[str, Any]]:
    """The targets of the profiles in a YAML document."""
    for profile in document.values() if isinstance(document, dict) else ():
        if isinstance(profile, dict) and "outputs" in profile:
            yield from profile["outputs"].values()


def navigation() -> dict[str, list[str]]:
    """Pages of each section of the site; of a group inside of a section, its first."""
    sections = [section for entry in yaml.safe_load(read("mkdocs.yml"))["nav"] for section in entry.items()]
    return {name: [list_entries(entry)[0] for entry in entries] for name, entries in sections}


@pages
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in _LINK.findall(prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pages
def test_pages_speak_of_the_project_alone(page: Path) -> None:
    assert not _UNWANTED.findall(page.read_text())


@pages
def test_make_targets_exist(page: Path) -> None:
    known = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    code = "\n".join([*_CODE.findall(prose(page)), *(text for _, text in _FENCE.findall(page.read_text()))])
    assert set(re.findall(r"(?:^|\n)make ([a-z][\w-]*)", code)) <= known


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    docs = ROOT / "docs"
    listed = list_entries(yaml.safe_load(read("mkdocs.yml"))["nav"])
    assert sorted(listed) == sorted(str(page.relative_to(docs)) for page in PAGES if docs in page.parents)


def list_entries(navigation: Any) -> list[str]:
    """Pages of a navigation, those of its sections too."""
    match navigation:
        case str():
            return [navigation]
        case dict():
            return [page for part in navigation.values() for page in list_entries(part)]
    return [page for entry in navigation for page in list_entries(entry)]


def test_the_first_page_lists_pages_in_the_sections_of_the_navigation() -> None:
    for name, pages in navigation().items():
        text = section(read("docs/index.md"), f"## {name}")
        listed = re.findall(r"^\| \[[^\]]+\]\(([\w/-]+\.md)\)", text, re.MULTILINE)
        assert ["index.md"] * (name == "Start") + listed == pages


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {file.parent.name for file in (tmp_path / "site").glob("*/index.html")} >= {"concepts", "readers"}


def test_pictures_are_described_and_used() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for picture in (ROOT / "docs" / "images").glob("*.svg"):
        assert f"images/{picture.name}" in text
        assert "<title" in picture.read_text()


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images").glob("*.png")), ids=lambda picture: picture.name)
def test_pictures_of_the_page_are_used_and_small(picture: Path) -> None:
    assert any(f"images/{picture.name}" in page.read_text() for page in PAGES)
    assert picture.stat().st_size <= LARGEST_PICTURE_BYTES


def measured_figures() -> dict[str, str]:
    """Name of each figure of the benchmarks → what was measured."""
    lines = [[cell.strip() for cell in line.split("|")] for line in read("docs/benchmarks.md").splitlines()]
    return {cells[1]: cells[2] for cells in lines if len(cells) > 2}


def test_each_figure_of_the_readme_is_measured_and_has_a_bad_one_beside_it() -> None:
    measured = measured_figures()
    figure = r"\| \*\*([\d.]+)[^|]*\| (\w+ \w+)[^|]*"
    rows = re.findall(rf"^{figure}{figure}\|$", read("README.md"), re.MULTILINE)
    assert [(row[:2], row[2:]) for row in rows] == [
        (
            (measured["join, 1% changed: table / `on_read`"], "a join"),
            (measured["reading with 10% unmerged / base alone"], "reads of"),
        ),
        (
            (measured["join, 0.1%; 1%; 10% changed: table / `on_write`"].split("; ")[1], "the same"),
            (f"{1 / float(measured[_WINDOW].split('; ')[0]):.1f}", "windows of"),
        ),
        (
            (measured["default MERGE / `on_read`, `changelog: lookup`"], "writing 1"),
            (f"{1 / float(measured[_MERGE]):.2f}", "a MERGE"),
        ),
        (
            (f"{1 / float(measured[_PEERS].split('; ')[3]):.1f}", "writing 1"),
            (measured["writing 1% of 2.5 million rows: Paimon / the same"].split("; ")[1], "writes of"),
        ),
        (
            (measured[_DELAY].split(" s; ")[0], "until a"),
            (measured["`dbt run` of 20 small models / the same as tables"], "runs of"),
        ),
    ]


def test_the_readmes_python_is_that_of_the_page_on_the_library() -> None:
    """The page's blocks are run, by the tests of the library."""
    (shown,) = [block.text for block in blocks("python") if block.page == "README.md"]
    run = [line for block in blocks("python") if block.page == "docs/notebook.md" for line in block.text.splitlines()]
    places = [run.index(line) for line in shown.splitlines() if line]
    assert places == sorted(places)


def test_the_figures_of_the_comparison_are_measured() -> None:
    measured = measured_figures()
    text = " ".join(section(read("docs/comparison.md"), "## When not to take dbt-arctic").split())
    third_layer = measured[_DELAY].split("; ")[0]
    assert f"third layer of models within [{third_layer}](benchmarks.md#results), 95th percentile" in text
    assert f"in its ingested table within {measured[_INGESTED]}, 99th percentile" in text
    slower = float(measured[_WINDOW].split("; ")[0]) < 1
    assert slower == ("a day later that has [taken longer](benchmarks.md#results) than building the table anew" in text)


@pytest.mark.parametrize("block", blocks("yaml", "yml", "json"), ids=lambda block: block.page)
def test_data_examples_parse(block: Block) -> None:
    assert json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)


def test_profile_examples_are_accepted() -> None:
    seen = 0
    for block in blocks("yaml"):
        for target in targets(yaml.safe_load(block.text)):
            assert target.pop("type") == "arctic"
            target.pop("threads", None)
            data = ArcticCredentials.translate_aliases(target)
            ArcticCredentials.validate(data)
            assert ArcticCredentials.from_dict(data)
            seen += 1
    assert seen >= 4


def test_model_examples_are_accepted() -> None:
    seen = 0
    for block in blocks("sql"):
        for given in configurations(block.text):
            is_arctic = given.pop("materialized") == "arctic"
            configuration.read_configuration(given if is_arctic else given["meta"]["arctic"], block.page)
            seen += 1
    assert seen >= 6


def test_every_model_key_is_described_once_and_in_order() -> None:
    keys = re.findall(r"^\| `(\w+)` \|", read("docs/reference/model-keys.md"), re.MULTILINE)
    assert keys == list(KEYS)


def test_values_and_defaults_are_the_codes() -> None:
    described = rows(read("docs/reference/model-keys.md"))
    defaults = table.ModelConfig(primary_key=())
    for key, kind in (
        ("merge", table.Merge),
        ("input", table.Input),
        ("refresh", table.Refresh),
        ("on_match", table.OnMatch),
        ("changelog", table.Changelog),
        ("keep", table.Keep),
        ("on_schema_change", table.OnSchemaChange),
        ("on_configuration_change", table.OnConfigurationChange),
        ("on_session_change", table.OnSessionChange),
        ("on_query_change", table.OnQueryChange),
    ):
        assert _CODE.findall(described[key][0]) == [*get_args(kind)] or key == "on_schema_change"
        assert set(_CODE.findall(described[key][0])) == set(get_args(kind))
        assert described[key][1] == f"`{getattr(defaults, key)}`"


def test_every_profile_key_is_described() -> None:
    described = set(rows(section(read("docs/configuration.md"), "## Profile")))
    assert described == {*PROFILE_KEYS, "type", "threads"} - {"database"}


def test_reserved_names_are_reported() -> None:
    documented = set(_CODE.findall(section(read("docs/configuration.md"), "## Names")))
    assert set(RESERVED) <= documented


def test_every_connector_and_its_keys_are_explained() -> None:
    documented = set(_CODE.findall(section(read("docs/ingestion.md"), "## Connectors")))
    known = {name for connector in CONNECTORS for name in (connector.name, *connector.keys)}
    assert known <= documented, sorted(known - documented)


def test_every_mode_and_reason_is_explained_once() -> None:
    run_rows = rows(section(read("docs/runs.md"), "## Run line and reasons"))
    query_rows = rows(section(read("docs/incremental.md"), "## Reasons"))
    assert sorted([*run_rows, *query_rows]) == sorted([*get_args(step.Mode), *get_args(step.Reason)])


def test_every_way_to_refresh_is_explained() -> None:
    documented = section(read("docs/configuration.md"), "## Refresh")
    assert set(rows(documented)) == set(get_args(table.Refresh))


def test_the_threshold_for_a_full_refresh_is_reported() -> None:
    assert (SHIPPED.incremental.changed_share, SHIPPED.incremental.always_incremental_rows) == (0.3, 10_000)
    assert SHIPPED.incremental.large_source_rows == 1_000_000
    assert SHIPPED.incremental.reducer_row_ratio == 3
    documented = " ".join(read("docs/incremental.md").split())
    for part in ("more than 10,000 rows", "more than 30%", "more than a million", "no more than a third of the rows"):
        assert part in documented


def test_how_costs_are_estimated_is_reported() -> None:
    documented = " ".join(section(read("docs/incremental.md"), "## Cost").split())
    prices = SHIPPED.cost
    assert f"{prices.scan_seconds} s for each time" in documented
    full, followed = (f"{1e6 * price:g}" for price in (prices.full_row_seconds, prices.incremental_row_seconds))
    assert f"a million rows {full} s where everything is computed, and {followed} s where" in documented
    assert f"{prices.run_seconds} s for the run" in documented
    assert f"{1e6 * prices.change_row_seconds:g} s more for a million changes" in documented
    assert f"{1e6 * prices.repeated_change_row_seconds:g} s for each further time" in documented
    assert f"another {1e6 * prices.merged_change_row_seconds:g} s for a million changes" in documented
    assert f"than {prices.extra_scans} tables more" in documented
    assert f"{prices.small_table_saving_seconds} s more than that" in documented


# How queries are kept, as the page on maintenance says: its examples are planned.

SHOP = {
    "lake.shop.orders": Relation(
        (
            Column("id", "bigint"),
            Column("customer", "bigint"),
            Column("amount", "bigint"),
            Column("state", "string"),
            Column("tags", "array<string>"),
        ),
        ("id",),
    ),
    "lake.shop.customers": Relation((Column("customer", "bigint"), Column("name", "string")), ("customer",)),
    "lake.shop.lines": Relation((Column("id", "bigint"), Column("line", "int")), ("id", "line")),
    "lake.shop.rates": Relation((Column("factor", "bigint"),)),
}
CHANGED = frozenset(TableName("lake", "shop", name) for name in ("orders", "customers", "lines"))
BY_RUN = {
    *("SELF_REFERENCE", "COST", "INCREMENT_FAILED", "TOO_COMPLEX", "SOURCE_UNKNOWN", "SOURCE_REPLACED"),
    "SOURCE_REPAIRED",
    "NOT_SAME_TO_SPARK",
    "UPSTREAM_EXPIRED",
}
"""Reasons that no text of a query alone brings about."""


def examples() -> dict[str, tuple[str, list[str]]]:
    """First cell → the query, and the other cells, of the lines of the page's tables that have one."""
    names = {}
    for line in read("docs/incremental.md").splitlines():
        first, *cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else [""]
        queries = [cell.strip("`") for cell in cells if re.match(r"`(select|with) ", cell)]
        if queries:
            names[first.strip("`") if first.strip("`") in get_args(step.Reason) else first] = (queries[0], cells)
    return names


def way(query: str, is_one_row: bool) -> str:
    """How an example's result is kept; the reason where it is not."""
    try:
        analysed = analyse_query(query, SHOP, {}, "lake", "shop")
        key = () if is_one_row else (analysed.outputs[0][1],)
        facts = Facts(types=analysed.types)
        return "deltas" if isinstance(plan_maintenance(analysed.tree, key, CHANGED, facts), Deltas) else "affected keys"
    except NotMaintained as refused:
        return refused.reason


EXAMPLES = examples()
WAYS = {name: cells for name, (_, cells) in EXAMPLES.items() if name not in get_args(step.Reason)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_maintenance_is_kept_or_refused_as_its_line_says(name: str) -> None:
    query, cells = EXAMPLES[name]
    assert way(query, name == "ONE_ROW") == (cells[1] if name in WAYS else name)


def test_both_ways_of_maintenance_have_examples() -> None:
    assert {cells[1] for cells in WAYS.values()} == {"deltas", "affected keys"}
    assert len(WAYS) >= 15


def test_every_reason_not_to_maintain_a_query_has_its_line() -> None:
    documented = section(read("docs/incremental.md"), "## Reasons")
    listed = re.findall(r"^\| `([A-Z_]+)` \|", documented, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == reasons_in_code()
    assert {name for name in listed if name not in EXAMPLES} == BY_RUN


def reasons_in_code() -> set[str]:
    """The reasons that plans of maintenance give, without those of any run, which `docs/runs.md` lists."""
    runtime = ROOT / "arctic_runtime"
    query_analysis = runtime / "spark" / "refresh" / "query_analysis.py"
    files = [
        query_analysis,
        *(runtime / "plan" / "refresh" / name for name in ("increment.py", "window_rows.py")),
        *(runtime / "ivm").rglob("*.py"),
    ]
    written = {word for file in files for word in re.findall(r'"([A-Z][A-Z_]+)"', file.read_text())}
    return written & {*get_args(step.Reason)} - {"NOTHING_NEW", "QUERY_CHANGED"}


def test_the_thresholds_of_merging_are_reported() -> None:
    text = " ".join(read("docs/concepts.md").split())
    merge = Thresholds().merge
    assert merge.unmerged_share == 0.25
    assert "more than a quarter of the base's rows" in text
    assert f"{merge.unmerged_commits} commits or more" in text
    assert f"up to {merge.longest_wait_factor:g} times as much may wait" in text


def test_thresholds_of_compaction_are_reported() -> None:
    documented = rows(section(read("docs/configuration.md"), "## Compaction and retention"))
    defaults = table.Compaction()
    assert {name: float(cells[0]) for name, cells in documented.items()} == {
        name: getattr(defaults, name) for name in ("deleted_share", "small_files", "change_files")
    }
    text = " ".join(read("docs/maintenance.md").split())
    limits, mib = Thresholds(), 1024 * 1024
    rewrite, costs, expiry = limits.base_rewrite, limits.compaction, limits.expiry
    assert f"small files (below {costs.small_file_bytes // mib} MiB)" in text
    assert f"{costs.open_file_bytes // mib} MiB for a file to open" in text
    assert f"A commit counts as {costs.commit_bytes // mib} MiB" in text
    assert f"once {expiry.snapshots} of its snapshots, and {expiry.snapshot_share:.0%} of them, may go" in text
    days, most = table.VERSIONS_SECONDS // 86_400, table.MAX_VERSIONS
    assert f"`retention: {{versions: {days}d, max_versions: {most}}}`" in text
    assert f"change rows of {rewrite.changed_share:.0%} of the base's rows or more" in text
    assert f"from {rewrite.changed_rows_per_bucket} change rows for each bucket on" in text
    assert f"where a bucket has more than {rewrite.task_bytes // (1024 * mib)} GiB" in text
    assert f"for each part of {rewrite.part_bytes // (1024 * mib)} GiB or more" in text
    assert f"`{BASE_REWRITE_PREFIX}…`" in text
    assert f"up to {costs.group_nodes} file groups and {costs.group_bytes // (1024 * mib)} GiB" in text


def test_limits_of_splitting_are_reported() -> None:
    text = " ".join(section(read("docs/maintenance.md"), "## Bucket split and merge").split())
    buckets = Thresholds().buckets
    assert buckets.level_split_share == 0.75
    assert "three quarters of the limit on average" in text
    assert (buckets.merged_limit_parts, buckets.small_bucket_bytes) == (16, 16 * 1024 * 1024)
    assert "a sixteenth of `node_bytes`, and 16 MiB at most" in text


def test_limits_of_scale_are_reported() -> None:
    text = " ".join(read("docs/scale.md").split())
    most = layout.MAX_NODES * table.ModelConfig(()).node_bytes
    assert f"{layout.MAX_NODES:,} at most: {most >> 40} TiB under one partition" in text
    assert f"{MAX_DEPTH + 1} at the most" in text
    assert f"until {Thresholds().merge.unmerged_commits} commits are merged at once" in text


def test_every_mode_of_compaction_is_explained() -> None:
    documented = section(read("docs/maintenance.md"), "## Compaction")
    assert list(rows(documented)) == [*get_args(CompactionMode)]


def test_arctic_commands_are_ones_that_the_parser_takes() -> None:
    typed = [line for block in blocks("sh") for line in block.text.splitlines() if line.startswith("arctic ")]
    assert {shlex.split(line)[1] for line in typed} == set(list_command_names())
    for line in typed:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                build_parser().parse_args(shlex.split(line)[1:])
            except SystemExit:
                pytest.fail(f"{line}: {said.getvalue()}")


@pages
def test_commands_named_in_the_text_exist(page: Path) -> None:
    named = {code.split()[1] for code in _CODE.findall(prose(page)) if re.match(r"arctic [a-z]", code)}
    assert named <= set(list_command_names())


def test_the_readme_names_models_that_the_sample_has() -> None:
    named = _MODEL.findall(section(read("README.md"), "## The sample project"))
    assert sorted(named) == sorted(MODELS)


def test_the_first_project_is_whole() -> None:
    """Each file that it tells to write is there, and reads only what others of them make."""
    text = read("docs/first-project.md")
    files = dict(re.findall(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    project, profile = yaml.safe_load(files["dbt_project.yml"]), yaml.safe_load(files["profiles.yml"])
    assert project["profile"] in profile
    sources = yaml.safe_load(files["models/sources.yml"])["sources"]
    made = {(source["name"], entry["name"]) for source in sources for entry in source["tables"]}
    models = {
        Path(name).stem: sql for name, sql in files.items() if name.startswith("models/") and name.endswith("sql")
    }
    for sql in models.values():
        assert set(re.findall(r"source\('(\w+)', '(\w+)'\)", sql)) <= made
        assert set(re.findall(r"ref\('(\w+)'\)", sql)) <= set(models)


def test_the_example_of_status_is_what_it_prints() -> None:
    from arctic_runtime.model.sources.freshness import Freshness
    from arctic_runtime.operations.inspect import Consumer, Status, describe_status

    shown = datetime(2026, 11, 21, 4, 10, 9, tzinfo=timezone.utc)
    printed = describe_status(
        Status(
            model="lake.ods.ods_flights",
            built=True,
            version="8035113349810045318",
            changed_at="2026-11-21 04:10:07+00:00",
            rows=26881,
            files=8,
            bytes=1934112,
            nodes=1,
            versions=7,
            unmerged_commits=5,
            unmerged_rows=6120,
            consumers=(Consumer("lake.dwd.dwd_flights", 1, 1240),),
            freshness=Freshness("fresh", shown),
        ),
        shown,
    )
    assert "\n".join(printed) in read("docs/commands.md")


def test_the_example_of_a_tree_is_what_it_prints() -> None:
    from arctic_runtime.operations.looking import Drawn, Tree, describe_tree

    sizes = [
        (0, 0, 614_210_118, 7, 0),
        (1, 0, 181_411_002, 2, 2),
        (1, 1, 432_799_116, 5, 1),
        (2, 1, 214_904_871, 2, 2),
        (2, 3, 215_002_300, 2, 2),
    ]
    printed = describe_tree(Tree("m", "all rows", 1, tuple(Drawn(*size) for size in sizes)), Thresholds().reports)
    assert "\n".join(printed) in read("docs/commands.md")


def test_the_example_of_explain_is_what_it_prints() -> None:
    from arctic_runtime.model.version import Version, Window
    from arctic_runtime.operations.looking import describe_next_run

    def version(snapshot: int) -> Version:
        return Version("uuid", snapshot, 1)

    flights, airlines = "lake.ods.ods_flights", "lake.ods.airlines"
    seed = version(4318843092418934071)
    windows = {
        airlines: Window(airlines, seed, seed),
        flights: Window(flights, version(1203944718834410222), version(8035113349810045318)),
    }
    name = TableName("lake", "dwd", "dwd_flights")
    known = {
        flights: Relation((Column("flight_id", "string"), Column("carrier", "string")), ("flight_id",)),
        airlines: Relation((Column("carrier", "string"), Column("name", "string"))),
    }
    sql = "select flight_id, name from ods.ods_flights f left join ods.airlines a on f.carrier = a.carrier"
    analysed = analyse_query(sql, known, {}, "lake", "dwd")
    changed = frozenset({TableName("lake", "ods", "ods_flights")})
    key = (analysed.outputs[0][1],)
    ways = plan_maintenance(analysed.tree, key, changed)
    result = increment.Increment(ways, analysed.outputs, key, analysed.tree, changed)
    decision = decide.Decision("incremental", "CHANGES", windows, increment=result)
    joins = describe_joins(analysed.tree, {TableName("lake", "ods", "ods_flights"): Placement("flight_id", (8,))})
    steps = (step.AppendChanges(name.changes, 1, "incremental", "CHANGES"),)
    plan = SimpleNamespace(decision=decision, steps=steps, joins=joins)
    model = replace(
        table.Model(name, sql, table.ModelConfig(primary_key=("flight_id",))),
        key_origin="test `unique` and not null",
    )
    printed = describe_next_run(model, plan)  # type: ignore[arg-type]
    assert "\n".join(printed) in read("docs/commands.md")
