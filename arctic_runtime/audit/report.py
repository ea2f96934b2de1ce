"""The report of an audit: the differences of each model with causes and examples, as text, Markdown and HTML."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from arctic_runtime.audit.causes import CAUSES, KINDS, PENDING, Cause
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


_LONGEST = 60
"""Maximum number of characters of a value that a report shows."""

_VERDICTS = {"exact": "exact", "differs": "wrong", "failed": "not compared", "not built": "not built"}
_KEY_SOURCES = {
    "unique_key": "unique_key",
    "constraint": "primary key of the contract",
    "tests": "tests unique and not_null",
}


def format_text(report: AuditReport) -> str:
    """Formats the report as lines for a terminal: a table of the models, then the differences of each."""
    rows = [_list_cells(model) for model in report.models]
    lines = _align_cells([_HEAD, *rows])
    for model in report.models:
        details = list(_describe_model(model))
        if details:
            lines += ["", f"{model.name} ({model.table})", *(f"  {line}" for line in details)]
    return "\n".join([*lines, "", report.summary])


_HEAD = ("model", "verdict", "wrong", "lost", "left over", "stale", "doubled", "pending", "likely cause")


def _list_cells(model: ModelAudit) -> tuple[str, ...]:
    by_kind = {kind: sum(group.rows for group in model.groups if group.kind == kind) for kind in KINDS}
    counts = [(f"{number:,}" if number else "") for number in (model.wrong_rows, *by_kind.values(), model.pending_rows)]
    cause = model.groups[0].explanation.title if model.groups else ""
    return (model.name, _VERDICTS[model.status], *counts, cause)


def _align_cells(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligns the cells of a table: numbers to the right, texts to the left."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    numbers = range(2, 8)
    return [
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _describe_model(model: ModelAudit) -> Iterator[str]:
    """Yields lines about a model's error, filters, differences and notes; none for an exact model without notes."""
    if model.error:
        first, *rest = model.error.splitlines()
        yield f"not compared: {first}"
        yield from (f"  {line}" for line in rest)
    if model.groups:
        yield f"rows are compared {describe_key(model)}"
        yield from (f"filter: {text}" for text in model.filters)
    for group in (*model.groups, *model.pending):
        yield describe_group(group)
        yield from (f"  {format_example(example)}" for example in group.examples)
    yield from (f"note: {note}" for note in model.notes)


def describe_key(model: ModelAudit) -> str:
    if not model.key:
        return "as a whole: the model has no key"
    return f"by {', '.join(model.key)} ({_KEY_SOURCES.get(model.key_source, model.key_source)})"


def describe_group(group: Group) -> str:
    """Returns one line about a group of differences: the number of wrong rows, their kind and their cause."""
    cause = group.explanation
    certainty = "" if cause.is_proven or group.cause == "unknown" else "likely "
    return f"{count_of(group.rows, 'row')} {group.kind}: {certainty}{cause.title}: {cause.why}"


def format_example(example: Example) -> str:
    """Returns one line about an example row: its key, and the table's and query's values of the differing columns."""
    key = ", ".join(f"{name}={shorten(value)}" for name, value in example.key.items())
    names = dict.fromkeys((*example.table, *example.query))
    values = ", ".join(
        f"{name}: {shorten(example.table.get(name))} instead of {shorten(example.query.get(name))}" for name in names
    )
    return f"{key}: {values}" if values else key


def shorten(value: str | None) -> str:
    """Returns a value as one line, cut off with an ellipsis if it is too long; `null` for None."""
    if value is None:
        return "null"
    line = " ".join(value.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def format_markdown(report: AuditReport) -> str:
    """Formats the report as Markdown, for instance for a pull request."""
    lines = ["# Audit of incremental models", "", f"**{_escape_markdown(report.summary)}.**", ""]
    lines += [_write_row(_HEAD), _write_row(["---"] * 2 + ["--:"] * 6 + ["---"])]
    lines += [_write_row(map(_escape_markdown, _list_cells(model))) for model in report.models]
    for model in report.models:
        details = list(_describe_model(model))
        if details:
            lines += ["", f"## {_escape_markdown(model.name)}", ""]
            lines += [_write_item(line) for line in details]
    return "\n".join(lines)


def _write_item(line: str) -> str:
    text = line.lstrip()
    return f"{' ' * (len(line) - len(text))}- {_escape_markdown(text)}"


def _write_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_markdown(text: str) -> str:
    """Escapes characters that Markdown, or HTML inside of it, would interpret."""
    escaped = "".join(f"\\{character}" if character in r"\`*_[]|#~" else character for character in text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def format_html(report: AuditReport) -> str:
    """Formats the report as one self-contained page of HTML, without scripts or external resources."""
    rows = "\n".join(_write_html_row(model) for model in report.models)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _HEAD)
    parts = "\n".join(_write_section(model) for model in report.models if list(_describe_model(model)))
    return _fill_cells(
        _PAGE, {"summary": html.escape(report.summary), "when": html.escape(report.read_at), "head": head,
                "rows": rows, "parts": parts}
    )  # fmt: skip


def _write_html_row(model: ModelAudit) -> str:
    cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in _list_cells(model))
    return f'<tr class="{_VERDICTS[model.status].replace(" ", "-")}">{cells}</tr>'


def _write_section(model: ModelAudit) -> str:
    items = "\n".join(f"<p>{html.escape(line)}</p>" for line in _describe_html_head(model))
    groups = "\n".join(_write_group(group) for group in (*model.groups, *model.pending))
    notes = "\n".join(f'<p class="note">{html.escape(note)}</p>' for note in model.notes)
    title = f"<h2>{html.escape(model.name)} <small>{html.escape(model.table)}</small></h2>"
    return f"<section>\n{title}\n{items}\n{groups}\n{notes}\n</section>"


def _describe_html_head(model: ModelAudit) -> Iterator[str]:
    if model.error:
        yield f"Not compared: {model.error}"
    if model.groups:
        yield f"Rows are compared {describe_key(model)}."
        yield from (f"Filter of the incremental run: {text}" for text in model.filters)


def _write_group(group: Group) -> str:
    head = f"<h3>{html.escape(describe_group(group))}</h3>"
    if not group.examples:
        return head
    rows = "".join(f"<tr><td>{html.escape(format_example(example))}</td></tr>" for example in group.examples)
    return f"{head}\n<table>{rows}</table>"


def _fill_cells(page: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        page = page.replace(f"<!-- {name} -->", part, 1)
    return page


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Audit of incremental models</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
small { font-weight: normal; opacity: .7; }
.summary { font-size: 1.15rem; font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; } td, th { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid #8884; }
.wide td:nth-child(n+3):nth-child(-n+8), .wide th:nth-child(n+3):nth-child(-n+8) { text-align: right; }
tr.wrong td:nth-child(2), tr.not-compared td:nth-child(2) { font-weight: 700; }
section td { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere; }
.note { opacity: .8; }
p { white-space: pre-wrap; margin: .3rem 0; }
</style>
</head>
<body>
<h1>Audit of incremental models</h1>
<p class="summary"><!-- summary --></p>
<p>Tables as of <!-- when -->. Nothing was written. Causes are likely ones, unless they are said to be proven.</p>
<div class="wide"><table><thead><tr><!-- head --></tr></thead><tbody>
<!-- rows -->
</tbody></table></div>
<!-- parts -->
</body>
</html>"""

FORMATS: Mapping[str, Callable[[AuditReport], str]] = {
    "text": format_text,
    "markdown": format_markdown,
    "html": format_html,
}
"""Functions that format a report for people, by the name of the format; JSON comes from `AuditReport.to_json`."""
