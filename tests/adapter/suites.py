"""Which classes of dbt-tests-adapter run here, and why the others do not.

`python -m tests.adapter.suites` writes `docs/dbt-suites.md` from what the test modules say.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import dbt.tests.adapter as package

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "dbt-suites.md"
ARCTIC = "tests.adapter.arctic."
PACKAGE = "dbt.tests.adapter."

LEFT_OUT: Mapping[str, str] = {
    "column_types.test_column_types.BasePostgresColumnTypes": "types of Postgres; the same question for Spark's types "
    "is asked by `TestColumnTypes`",
    "dbt_clone.test_dbt_clone.BaseClonePossible": "wants tables; here a clone is a view, see `BaseCloneNotPossible`",
    "functions": "Iceberg catalogs keep no functions that Spark could create",
    "grants": "an Iceberg catalog keeps no grants that Spark could change; a message says that they are ignored, "
    "see `TestGrantsAreIgnored`",
    "materialized_view": "Iceberg has no materialized views; a table that follows its sources is `arctic`",
    "utils.test_current_timestamp.BaseCurrentTimestampAware": "fetched timestamps carry no zone, see "
    "`BaseCurrentTimestampNaive`",
    "utils.test_escape_single_quotes.BaseEscapeSingleQuotesQuote": "Spark escapes with a backslash, see "
    "`BaseEscapeSingleQuotesBackslash`",
}
"""A folder, a module or a class of the package → why none of it runs here."""


@dataclass(frozen=True)
class Suite:
    """A class of the package with its tests, and ours that run them."""

    base: type
    module: str
    tests: tuple[str, ...]
    runs: tuple[type, ...]
    for_arctic: tuple[type, ...]
    reason: str

    @property
    def name(self) -> str:
        return self.base.__name__

    @property
    def folder(self) -> str:
        return self.module.split(".")[0]


@cache
def suites() -> tuple[Suite, ...]:
    """Every class of the package that tests, but those that only serve others as a base.

    The package's own `Test…` classes run its bases on Postgres and are left out as well.
    """
    ours = [suite for module in _modules_of(HERE, "tests.adapter") for suite in _classes(module)]
    theirs = [base for module in _modules_of(_package(), PACKAGE[:-1]) for base in _bases(module)]
    parents = {parent for suite in theirs for parent in suite.__mro__[1:]}
    return tuple(
        _suite(suite, runs)
        for suite in theirs
        if (runs := [run for run in ours if _nearest(run, theirs) is suite]) or suite not in parents
    )


def own_tests(suite: Suite) -> list[str]:
    """The suite's tests that our classes have in a form of their own."""
    return [
        test for test in suite.tests if any(getattr(run, test) is not getattr(suite.base, test) for run in suite.runs)
    ]


def unexplained() -> list[str]:
    """The classes that neither run nor have a reason, and the reasons that are not needed."""
    left = [suite for suite in suites() if not suite.runs]
    needed = {_key_of(f"{suite.module}.{suite.name}") for suite in left}
    return [suite.name for suite in left if not suite.reason] + sorted(set(LEFT_OUT) - needed)


def document() -> str:
    """Returns the page, as Markdown: counts for each folder, tests with a form of their own, and what is left out."""
    left = [suite for suite in suites() if not suite.runs]
    run = [suite for suite in suites() if suite.runs]
    version = importlib.metadata.version("dbt-tests-adapter")
    lines = [_INTRODUCTION.format(version=version, run=_counted(run), left=_counted(left))]
    lines += ["| folder | classes | that run | with `arctic` too | by `make test-all` alone |", "|---|---|---|---|---|"]
    lines += [_count_folder(folder) for folder in dict.fromkeys(suite.folder for suite in suites())]
    lines += ["", _OWN, "| class | tests |", "|---|---|"]
    lines += [f"| `{suite.name}` | {_list_names(own)} |" for suite in run if (own := own_tests(suite))]
    lines += ["", _LEFT, "| classes | why |", "|---|---|"]
    lines += [f"| {_list_names(names)} | {reason} |" for reason, names in _group_by_reason(left).items()]
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# dbt's own suites

Of dbt-tests-adapter {version}, {run} run here and pass.
{left} do not run, each for the reason [below](#left-out).
Classes that only serve others as a base are not counted.

`tests/adapter` is laid out as the package is. `python -m tests.adapter.suites` writes this page from the classes that
are there. A unit test fails where the page is another one, and where a class has neither a test nor a reason.
"""

_OWN = """## Tests in a form of their own

The docstring of each says why.
"""

_LEFT = """## Left out
"""


def _counted(suites: list[Suite]) -> str:
    return f"{len(suites)} classes with {sum(len(suite.tests) for suite in suites)} tests"


def _count_folder(folder: str) -> str:
    """Writes the line of a folder, with the numbers of its classes."""
    all_of_it = [suite for suite in suites() if suite.folder == folder]
    run = [suite for suite in all_of_it if suite.runs]
    slow = [suite for suite in run if all(map(_is_slow, suite.runs))]
    with_arctic = [suite for suite in run if suite.for_arctic]
    counts = " | ".join(str(len(counted)) for counted in (all_of_it, run, with_arctic, slow))
    return f"| `{folder}` | {counts} |"


def _group_by_reason(left: list[Suite]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for suite in left:
        groups.setdefault(suite.reason, []).append(suite.name)
    return groups


def _list_names(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _suite(suite: type, runs: list[type]) -> Suite:
    module = suite.__module__.removeprefix(PACKAGE)
    return Suite(
        base=suite,
        module=module,
        tests=_tests(suite),
        runs=tuple(run for run in runs if not run.__module__.startswith(ARCTIC)),
        for_arctic=tuple(run for run in runs if run.__module__.startswith(ARCTIC)),
        reason=LEFT_OUT.get(_key_of(f"{module}.{suite.__name__}"), ""),
    )


def _key_of(path: str) -> str:
    """The closest key of LEFT_OUT: the class, its module or its folder."""
    parts = path.split(".")
    return next((key for n in range(len(parts), 0, -1) if (key := ".".join(parts[:n])) in LEFT_OUT), "")


def _nearest(run: type, known: Collection[type]) -> type | None:
    return next((base for base in run.__mro__ if base in known), None)


def _bases(module: ModuleType) -> list[type]:
    return [suite for suite in _classes(module) if not suite.__name__.startswith("Test") and _tests(suite)]


def _tests(suite: type) -> tuple[str, ...]:
    names = [name for name in dir(suite) if name.startswith("test")]
    return tuple(name for name in names if callable(getattr(suite, name)) and not _is_fixture(getattr(suite, name)))


def _is_fixture(value: Any) -> bool:
    return type(value).__name__ == "FixtureFunctionDefinition"


def _is_slow(run: type) -> bool:
    of_module = getattr(sys.modules[run.__module__], "pytestmark", [])
    marks = [*getattr(run, "pytestmark", []), *(of_module if isinstance(of_module, list) else [of_module])]
    return any(mark.name == "slow" for mark in marks)


def _classes(module: ModuleType) -> list[type]:
    return [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]


def _modules_of(folder: Path, name: str) -> Iterator[ModuleType]:
    for file in sorted(folder.glob("*/**/*.py")):
        if file.stem != "__init__":
            yield importlib.import_module(".".join([name, *file.relative_to(folder).with_suffix("").parts]))


def _package() -> Path:
    return Path(next(iter(package.__path__)))


if __name__ == "__main__":
    PAGE.write_text(document())
    print("\n".join(unexplained()) or f"wrote {PAGE}")
