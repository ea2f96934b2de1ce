"""dbt in this process, for programs that run a project of the sample again and again, and what each run did."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MODES = {"create": "created", "incremental": "incremental", "full": "full", "unchanged": "nothing new"}


class StepError(Exception):
    """A step failed; the text is what to tell the user."""


class NotOursError(StepError):
    """What would be removed was made by somebody else."""


@dataclass(frozen=True)
class Build:
    """What one model did in one run."""

    run: str
    model: str
    mode: str
    reason: str
    inserted: int
    updated: int
    deleted: int
    seconds: float


class Dbt:
    """dbt in this process, so that Spark starts once; the project is parsed once as well.

    `folder` has both `dbt_project.yml` and `profiles.yml`. Raises StepError where dbt can't read the project.
    """

    def __init__(self, folder: Path) -> None:
        from dbt.cli.main import dbtRunner
        from dbt.contracts.graph.manifest import Manifest

        self.folder = folder
        self.where = ("--project-dir", str(folder), "--profiles-dir", str(folder))
        self._log = folder / "target" / "dbt.log"
        self._quietly = (
            "--quiet",
            "--log-level",
            "none",
            "--log-level-file",
            "info",
            "--log-path",
            str(self._log.parent),
        )
        parsed = dbtRunner().invoke(["parse", *self._quietly, *self.where])
        if not isinstance(parsed.result, Manifest):
            raise StepError(f"dbt could not read the project: {parsed.exception}")
        self.manifest = parsed.result

    def run(self, name: str) -> list[Build]:
        """``dbt run``: what each model did."""
        return [_build(name, result) for result in self.invoke("run")]

    def invoke(self, command: str) -> list[dict[str, Any]]:
        """The results of a dbt command; raises StepError with the message of each node that failed."""
        from dbt.cli.main import dbtRunner

        # In a manifest that was run once, dbt leaves ephemeral models out of those that read them.
        outcome = dbtRunner(manifest=self.manifest.deepcopy()).invoke([command, *self._quietly, *self.where])
        if outcome.exception is not None:
            raise StepError(f"dbt {command} failed: {outcome.exception}")
        file = self.folder / "target" / "run_results.json"
        results: list[dict[str, Any]] = json.loads(file.read_text())["results"]
        failed = [result for result in results if result["status"] in ("error", "fail", "runtime error")]
        if failed or not outcome.success:
            failures = "\n".join(f"  {_name(result)}: {result['message']}" for result in failed)
            raise StepError(f"dbt {command} failed.\n{failures}\nMore is in {short(self._log)}.")
        return results

    def verify(self) -> int:
        """``arctic verify``: recomputes every model and compares; 1 where one differs."""
        from dbt.adapters.arctic import cli

        return int(cli.main(["verify", *self.where]) or 0)


def make_fresh(warehouse: Path, mark: str) -> None:
    """An empty warehouse with a file that marks whose it is, which the profiles of the sample get.

    Removes only a directory that bears the mark, or an empty one; raises NotOursError for others.
    """
    if warehouse.exists() and any(warehouse.iterdir()):
        if not (warehouse / mark).exists():
            raise NotOursError(f"{short(warehouse)} holds data that this program did not make. Move it away first.")
        shutil.rmtree(warehouse)
    warehouse.mkdir(parents=True, exist_ok=True)
    (warehouse / mark).write_text("The program that made this directory removes it when it starts again.\n")
    os.environ["NYC_FLIGHTS_WAREHOUSE"] = str(warehouse)


def changed_rows(builds: Sequence[Build]) -> str:
    """The rows that a run changed in all models together."""
    return rows_text(*(sum(getattr(build, what) for build in builds) for what in ("inserted", "updated", "deleted")))


def rows_text(inserted: int, updated: int, deleted: int) -> str:
    return f"{inserted:+,} ~{updated:,} -{deleted:,} rows"


def table_of(builds: Sequence[Build]) -> str:
    """A line per run and model, with a blank line between runs."""
    head = ("run", "model", "what it did", "inserted", "updated", "deleted", "seconds")
    rows = [_cells(build, new=n == 0 or builds[n - 1].run != build.run) for n, build in enumerate(builds)]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [_line(head, widths), "  ".join("-" * width for width in widths)]
    for n, row in enumerate(rows):
        lines += [""] if n and row[0] else []
        lines.append(_line(row, widths))
    return "\n".join(lines)


class Step:
    """A line about a step: its name when it begins, then what it did and the seconds that it took."""

    def __init__(self, name: str) -> None:
        self._began = time.monotonic()
        print(f"  {name:<10} ", end="", flush=True)

    def done(self, what: str) -> None:
        print(f"{what:<46} {time.monotonic() - self._began:6.1f} s", flush=True)


def short(path: Path) -> str:
    """A path as it is typed from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _build(run: str, result: dict[str, Any]) -> Build:
    response = result["adapter_response"]
    return Build(
        run=run,
        model=_name(result),
        mode=response.get("mode", ""),
        reason=response.get("reason") or "",
        inserted=int(response.get("inserted") or 0),
        updated=int(response.get("updated") or 0),
        deleted=int(response.get("deleted") or 0),
        seconds=float(result["execution_time"]),
    )


def _name(result: dict[str, Any]) -> str:
    return str(result["unique_id"]).split(".")[2]


def _cells(build: Build, *, new: bool) -> tuple[str, ...]:
    mode = _MODES.get(build.mode, build.mode)
    what = f"{mode} ({build.reason})" if build.reason else mode
    counts = (f"+{build.inserted:,}", f"~{build.updated:,}", f"-{build.deleted:,}")
    return (build.run if new else "", build.model, what, *counts, f"{build.seconds:.2f}")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    left = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
    right = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
    return "  ".join([*left, *right]).rstrip()
