"""Capabilities of catalogs, such as views: their list, the features that need them, and the error if one is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Final

from arctic_runtime.errors import ConfigError


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a catalog, each True, False, or None if it is not known."""

    branches: bool | None = None
    """Whether tables can have branches besides main."""

    views: bool | None = None
    """Whether Iceberg views can be stored, listed and read."""

    staged_creation: bool | None = None
    """Whether a table can be created together with its first rows in one commit."""

    format_version_3: bool | None = None
    """Whether tables of Iceberg format version 3 can be stored."""

    table_transactions: bool | None = None
    """Whether one transaction can change several tables."""

    conditional_writes: bool | None = None
    """Whether a commit on top of an older version of a table is refused."""

    def complete(self, other: Capabilities) -> Capabilities:
        """Returns these capabilities; those that are unknown are taken from `other`."""
        known = {part.name: getattr(self, part.name) for part in fields(self)}
        unknown = {name: getattr(other, name) for name, answer in known.items() if answer is None}
        return replace(self, **unknown)


UNKNOWN: Final = Capabilities()
"""Capabilities of a catalog of which nothing is known."""


@dataclass(frozen=True)
class CapabilityUse:
    """The use of the capability `name`, a field of `Capabilities`; `title` is its name for people.

    `needed_by` describes the features that need it, and is empty if none does. `fix` is the advice for a user whose
    catalog lacks it.
    """

    name: str
    title: str
    needed_by: str = ""
    fix: str = ""


_OTHER_CATALOG: Final = "use a catalog with them: `warehouse: …`, `jdbc` on PostgreSQL, `glue`, `hive`, or `rest` with "

BRANCHES = CapabilityUse(
    "branches",
    "table branches",
    "arctic models: a commit is written to a branch, and published by compare-and-swap",
    f"{_OTHER_CATALOG}a server that keeps them; Nessie versions the whole catalog instead, and keeps none",
)
VIEWS = CapabilityUse(
    "views",
    "views",
    "`merge: on_read` and `current_view`",
    "set `merge: on_write`, and leave `current_view` out; or use a catalog with views: `warehouse: …`, `jdbc`, or "
    "`rest` with a server that supports them",
)
FORMAT_VERSION_3 = CapabilityUse(
    "format_version_3",
    "format version 3",
    "arctic models: change rows are ordered by their row lineage",
    f"{_OTHER_CATALOG}a server that accepts it",
)
CONDITIONAL_WRITES = CapabilityUse(
    "conditional_writes",
    "conditional writes",
    "arctic models: of two writers at the same time, one has to be refused",
    f"{_OTHER_CATALOG}a server that checks the requirements of commits",
)

TABLE_TRANSACTIONS = CapabilityUse(
    "table_transactions",
    "transactions over tables",
    "`publish: build`, which publishes one table after another without them",
    "use a catalog with them: `warehouse: …`, `jdbc` on PostgreSQL, or `rest` with a server that has them",
)

CAPABILITY_USES = (
    BRANCHES,
    VIEWS,
    CapabilityUse("staged_creation", "staged creation"),
    FORMAT_VERSION_3,
    TABLE_TRANSACTIONS,
    CONDITIONAL_WRITES,
)
"""All capabilities, in the order in which `dbt debug` shows them."""

_MODEL_NEEDS = (BRANCHES, FORMAT_VERSION_3, CONDITIONAL_WRITES)


def check_model_needs(subject: str, catalog: str, capabilities: Capabilities, view_key: str = "") -> None:
    """Raises ConfigError if a catalog is known to lack a capability that an arctic model needs.

    `subject` names the model, and `view_key` is the key of its configuration that needs views, or empty.
    """
    for use in (*_MODEL_NEEDS, *([VIEWS] if view_key else [])):
        if getattr(capabilities, use.name) is False:
            raise build_lack_error(subject, catalog, use, view_key if use is VIEWS else "")


def build_lack_error(subject: str, catalog: str, use: CapabilityUse, key: str = "") -> ConfigError:
    """Builds the error for a catalog that lacks the capability of `use`.

    `subject` names the model, and `key` is the setting of the model that needs the capability; if it is empty, every
    arctic model needs it.
    """
    return ConfigError(
        f"{subject}: {f'`{key}` needs {use.title}' if key else f'arctic models need {use.title}'}, and the catalog has "
        "none; nothing was written.",
        where=catalog,
        expected=f"{use.title}, for {use.needed_by}",
        actual=f"no {use.title}",
        fix=use.fix,
    )


def list_capability_lines(capabilities: Capabilities) -> Iterable[str]:
    """Yields a line of text for each capability: yes, no or unknown, and the features that need it."""
    for use in CAPABILITY_USES:
        answer = {True: "yes", False: "no", None: "unknown"}[getattr(capabilities, use.name)]
        yield f"catalog has {use.title}: {answer} ({f'for {use.needed_by}' if use.needed_by else 'not needed'})"
