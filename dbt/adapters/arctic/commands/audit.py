"""The command `arctic audit`: reports the rows that incremental models have wrong, and writes nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from arctic_runtime.audit.audited_model import AuditOptions
from arctic_runtime.audit.report import FORMATS, AuditReport
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import watch_effects
from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.operation import Answer
from dbt.adapters.arctic.commands import selection

if TYPE_CHECKING:
    from arctic_runtime.audit.audited_model import AuditedProject
    from arctic_runtime.profile import Profile
    from dbt.adapters.arctic.project.loaded_project import LoadedProject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    selection.add_arguments(parser, "all incremental models")
    parser.add_argument(
        "--exclude-column",
        action="append",
        default=[],
        metavar="[MODEL.]COLUMN",
        help="do not compare this column, such as the time of the load; can be repeated",
    )
    parser.add_argument(
        "--limit", type=_read_limit, default=3, metavar="N", help="example rows for each cause (default: 3)"
    )
    parser.add_argument(
        "--format", choices=(*FORMATS, "json"), default="text", help="the format of the report (default: text)"
    )


def _read_limit(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("is below 0")
    return number


def perform_command(options: argparse.Namespace) -> Answer:
    """Audits the selected incremental models; raises ConfigError if none is selected, or if none has a table."""
    from dbt.adapters.arctic.project.loaded_project import Location

    options.json = options.json or options.format == "json"
    location = Location(options.project_dir, options.profiles_dir, options.target, options.select, options.exclude)
    with _forbid_writes():
        project = _load_incremental(location)
        _check_warehouse(project.profile)
        with project.adapter.connections.refuse_changes():
            report = _audit_project(project, AuditOptions(options.limit, tuple(options.exclude_column)))
    lines = () if options.json else (FORMATS[options.format](report),)
    return Answer(report.to_json(), lines, differs=not report.is_exact)


def _load_incremental(location: Any) -> LoadedProject:
    from dbt.adapters.arctic.project.incremental_models import is_incremental
    from dbt.adapters.arctic.project.loaded_project import load_nodes

    project = load_nodes(location, is_incremental)
    if not project.nodes:
        raise ConfigError(
            "no incremental model is selected.",
            expected="a model with `materialized: incremental`",
            actual=" ".join(location.select) or "a project without one",
            fix="correct --select, or leave it out",
        )
    return project


def _audit_project(project: LoadedProject, options: AuditOptions) -> AuditReport:
    from arctic_runtime.spark.audit import Auditor
    from arctic_runtime.spark.engine.session_pool import get_pool
    from dbt.adapters.arctic.project.incremental_models import compile_audited_project

    _print_progress(f"compiles {len(project.nodes)} incremental models")
    audited = compile_audited_project(project)
    reader, pool = CatalogReader(project.profile), get_pool(project.profile)
    session = pool.take_session()
    try:
        read_at = datetime.now(timezone.utc)
        models = Auditor(session, reader, audited, options, _print_progress).audit_models()
    finally:
        pool.discard_session(session)
    if all(model.status == "not built" for model in models):
        raise _build_missing_error(audited, project.profile)
    return AuditReport(models, read_at.isoformat(timespec="seconds"))


def _build_missing_error(audited: AuditedProject, profile: Profile) -> ConfigError:
    return ConfigError(
        "none of the selected models has a table.",
        where=f"catalog {profile.catalog}",
        expected=f"{audited.models[0].table}, as this target names it",
        fix="choose the target whose catalog and schema have the tables, by --target and --profiles-dir",
    )


@contextmanager
def _forbid_writes() -> Iterator[None]:
    """Refuses every effect on a catalog or on storage with a ConfigError until the context ends."""

    @contextmanager
    def refuse_effect(name: str) -> Iterator[None]:
        raise ConfigError(
            "an audit writes nothing, and the project asked for a change.",
            actual=name,
            fix="leave that model out by --exclude",
        )
        yield

    with watch_effects(refuse_effect):
        yield


def _check_warehouse(profile: Profile) -> None:
    """Raises ConfigError if the embedded catalog does not exist, since opening it would create it."""
    if profile.sqlite_file is not None and not profile.sqlite_file.exists():
        raise ConfigError(
            "the warehouse has no catalog.",
            where=str(profile.sqlite_file),
            expected="the catalog that has the tables of the project",
            fix="correct `warehouse` in the profile, or choose another target by --target",
        )


def _print_progress(text: str) -> None:
    print(f"arctic audit: {text}", file=sys.stderr, flush=True)
