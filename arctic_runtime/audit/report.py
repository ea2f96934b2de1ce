"""The result of an audit: the differences of each model with causes and examples, and the sums over all models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from arctic_runtime.audit.causes import CAUSES, PENDING, Cause
from arctic_runtime.audit.comparison import Kind

Status = Literal["exact", "differs", "failed", "not built"]


@dataclass(frozen=True)
class Example:
    """A differing row: its key, and for each differing column the values of the table and of the query, as texts."""

    key: Mapping[str, str | None]
    table: Mapping[str, str | None]
    query: Mapping[str, str | None]


@dataclass(frozen=True)
class Group:
    """The differences of a model that have the same kind and cause."""

    kind: Kind
    cause: str
    """Code of the cause."""

    keys: int
    """Number of keys with such differences."""

    rows: int
    """Number of wrong rows."""

    examples: tuple[Example, ...] = ()
    """The first differing rows, in the order of their keys."""

    @property
    def explanation(self) -> Cause:
        return CAUSES[self.cause]


@dataclass(frozen=True)
class ModelAudit:
    """The audit of one model. Without a `key` rows are compared as a whole."""

    name: str
    table: str
    status: Status
    key: tuple[str, ...] = ()
    """Columns by which rows of the table and of the query are matched."""

    key_source: str = "none"
    """Declaration from which `key` was taken, or `none`."""

    table_rows: int = 0
    """Number of rows of the table."""

    groups: tuple[Group, ...] = ()
    """Differences that are wrong."""

    pending: tuple[Group, ...] = ()
    """Differences that the next incremental run will correct."""

    filters: tuple[str, ...] = ()
    """Conditions that only the incremental query has, as SQL."""

    notes: tuple[str, ...] = ()
    """Remarks for the user, such as about columns that were not compared."""

    error: str = ""
    """Reason for which the model could not be compared; empty if it could."""

    seconds: float = 0.0
    """Duration of the audit."""

    @property
    def wrong_rows(self) -> int:
        return sum(group.rows for group in self.groups)

    @property
    def pending_rows(self) -> int:
        return sum(group.rows for group in self.pending)

    def with_groups(self, groups: tuple[Group, ...]) -> ModelAudit:
        """Returns the audit with these groups of differences, the largest first, and the status that they determine."""
        ordered = sorted(groups, key=lambda group: (-group.rows, group.kind, group.cause))
        wrong = tuple(group for group in ordered if group.cause != PENDING)
        pending = tuple(group for group in ordered if group.cause == PENDING)
        return replace(self, groups=wrong, pending=pending, status="differs" if wrong else "exact")

    def to_json(self) -> dict[str, Any]:
        groups = [
            {**asdict(group), "title": group.explanation.title, "is_proven": group.explanation.is_proven}
            for group in (*self.groups, *self.pending)
        ]
        rest = {key: value for key, value in asdict(self).items() if key not in ("groups", "pending")}
        return {**rest, "wrong_rows": self.wrong_rows, "pending_rows": self.pending_rows, "differences": groups}


@dataclass(frozen=True)
class AuditReport:
    """The audits of all selected models, in the order of the project; `read_at` is the time of the read as text."""

    models: tuple[ModelAudit, ...]
    read_at: str = ""

    @property
    def wrong_rows(self) -> int:
        return sum(model.wrong_rows for model in self.models)

    @property
    def is_exact(self) -> bool:
        """Whether no built model has a wrong row, and each could be compared; models that are not built don't count."""
        return all(model.status in ("exact", "not built") for model in self.models)

    @property
    def summary(self) -> str:
        """One line with the numbers of exact, wrong, failed and missing models."""
        built = [model for model in self.models if model.status != "not built"]
        exact = sum(model.status == "exact" for model in built)
        wrong = [model for model in built if model.status == "differs"]
        failed = sum(model.status == "failed" for model in built)
        parts = [f"{exact:,} of {count_of(len(built), 'model')} {'is' if exact == 1 else 'are'} exact"]
        if wrong:
            parts.append(f"{count_of(self.wrong_rows, 'wrong row')} in {count_of(len(wrong), 'model')}")
        if failed:
            parts.append(f"{count_of(failed, 'model')} could not be compared")
        if missing := len(self.models) - len(built):
            parts.append(f"{count_of(missing, 'model')} {'is' if missing == 1 else 'are'} not built")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "summary": self.summary,
            "read_at": self.read_at,
            "wrong_rows": self.wrong_rows,
            "models": [model.to_json() for model in self.models],
        }


def count_of(number: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 model` or `2,000 models`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
