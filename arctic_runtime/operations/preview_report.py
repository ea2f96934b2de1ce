"""Reports of a preview: lines of text, Markdown for a comment on a pull request, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from arctic_runtime.operations.markdown import escape_text
from arctic_runtime.plan.preview.amount import Amount
from arctic_runtime.plan.preview.preview import ModelPreview, Preview, PreviewWay, RunAmounts

_WAYS: Mapping[PreviewWay, str] = {
    "nothing": "nothing",
    "own result": "from its own result",
    "incremental": "incremental",
    "full": "in full",
    "refused": "refused",
}


def describe_preview(preview: Preview) -> Iterator[str]:
    """Yields lines for people: some for each touched model, then the sums, then the number of the other models."""
    for model in preview.models:
        yield from _describe_model(model)
    yield from _describe_sums(preview)


def _describe_model(model: ModelPreview) -> Iterator[str]:
    edit = "new, " if model.reason == "FIRST_RUN" else "edited, " if model.is_edited else ""
    yield f"{model.table}: {edit}{_describe_way(model)}"
    if model.has_cost:
        yield f"  {_describe_bytes(model.amounts)}"
        yield f"  {_describe_seconds(model)}"
    if model.frozen_where:
        yield f"  {_describe_frozen(model)}"
    if model.tables_below or model.readers_below:
        yield f"  its changes may reach {_describe_below(model.tables_below, model.readers_below)}"


def _describe_way(model: ModelPreview) -> str:
    why = f"{model.reason}: {model.because}" if model.reason and model.because else model.reason or model.because
    return f"{_WAYS[model.way]} ({why})" if why else _WAYS[model.way]


def _describe_bytes(amounts: RunAmounts) -> str:
    read = f"reads {format_bytes_range(amounts.bytes_read)} of {format_rows_range(amounts.rows_read)}"
    return f"{read}, writes {format_bytes_range(amounts.bytes_written)} of {format_rows_range(amounts.rows_written)}"


def _describe_seconds(model: ModelPreview) -> str:
    return f"about {format_seconds_range(model.amounts.seconds)}; {_describe_error(model)}"


def _describe_error(model: ModelPreview) -> str:
    past = model.past_runs
    if past.error is None:
        return "no past run by which this estimate can be judged"
    return f"past estimates were off by {past.error:.0%}"


def _describe_frozen(model: ModelPreview) -> str:
    return f"keeps rows as they are where {model.frozen_where}"


def _describe_below(tables: int, readers: int) -> str:
    parts = [_count(tables, "table")] if tables else []
    parts += [f"{_count(readers, 'model')} of other projects"] if readers else []
    return " and ".join(parts)


def _describe_sums(preview: Preview) -> Iterator[str]:
    if preview.run_count:
        seconds = f"about {format_seconds_range(preview.amounts.seconds)}, one after the other"
        yield f"together: {_count(preview.run_count, 'run')}, {_describe_bytes(preview.amounts)}, {seconds}"
    if preview.tables_below or preview.readers_below:
        yield f"changes may reach {_describe_below(preview.tables_below, preview.readers_below)}"
    yield f"not touched: {_count(preview.untouched, 'model')}"


def describe_preview_as_markdown(preview: Preview) -> Iterator[str]:
    """Yields lines of Markdown, for a comment on a pull request: a table of the touched models, then the sums."""
    if preview.models:
        yield "| model | next run | reads | writes | rows written | seconds | off by | tables below |"
        yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for model in preview.models:
        yield f"| {' | '.join(_list_cells(model))} |"
    notes = [(model, model.because) for model in preview.models if model.because]
    notes += [(model, _describe_frozen(model)) for model in preview.models if model.frozen_where]
    if notes:
        yield ""
        yield from (f"- **{escape_text(model.table.name)}**: {escape_text(note)}" for model, note in notes)
    if preview.models:
        yield ""
    yield from (f"{line[0].upper()}{line[1:]}." for line in map(escape_text, _describe_sums(preview)))


def _list_cells(model: ModelPreview) -> list[str]:
    name = escape_text(model.table.name)
    way = f"{_WAYS[model.way]} ({model.reason})" if model.reason else _WAYS[model.way]
    cells = [f"**{name}**" if model.is_edited else name, escape_text(way)]
    if not model.has_cost:
        return [*cells, "", "", "", "", "", ""]
    amounts, error = model.amounts, model.past_runs.error
    return [
        *cells,
        format_bytes_range(amounts.bytes_read),
        format_bytes_range(amounts.bytes_written),
        format_rows_range(amounts.rows_written).removesuffix(" rows"),
        format_seconds_range(amounts.seconds),
        "" if error is None else f"{error:.0%}",
        f"{model.tables_below:,}" if model.tables_below else "",
    ]


def to_json(preview: Preview) -> dict[str, Any]:
    """Converts a preview to values for JSON; names of tables become texts."""
    return {
        "models": [
            {
                **{key: value for key, value in asdict(model).items() if key != "amounts"},
                "table": str(model.table),
                **asdict(model.amounts),
            }
            for model in preview.models
        ],
        "total": {**asdict(preview.amounts), "models": preview.run_count},
        "tables_below": preview.tables_below,
        "readers_below": preview.readers_below,
        "untouched": preview.untouched,
    }


def format_bytes_range(amount: Amount) -> str:
    return _format_range(format_bytes(amount.expected), format_bytes(amount.low), format_bytes(amount.high))


def format_rows_range(amount: Amount) -> str:
    texts = [f"{round(part):,}" for part in (amount.expected, amount.low, amount.high)]
    return f"{_format_range(*texts)} rows"


def format_seconds_range(amount: Amount) -> str:
    texts = [f"{part:.1f} s" for part in (amount.expected, amount.low, amount.high)]
    return _format_range(*texts)


def _format_range(expected: str, low: str, high: str) -> str:
    return expected if low == high else f"{expected} ({low} to {high})"


_BYTE_UNITS: Sequence[str] = ("B", "KB", "MB", "GB", "TB", "PB")


def format_bytes(size: float) -> str:
    """Formats a number of bytes with three digits and a decimal unit, such as `1.23 GB`."""
    for unit in _BYTE_UNITS:
        if round(size) < 1000 or unit == _BYTE_UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.3g} {unit}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
