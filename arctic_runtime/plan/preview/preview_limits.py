"""Limits on the cost of a preview, such as `bytes>1TB,models>20`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from arctic_runtime.errors import ConfigError
from arctic_runtime.plan.preview.preview import Preview

LimitedAmount = Literal["bytes", "rows", "seconds", "models"]

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "PIB": 2**50}
_LIMIT = re.compile(rf"({'|'.join(get_args(LimitedAmount))})>([\d_]+(?:\.\d+)?)([a-zA-Z]*)")


@dataclass(frozen=True)
class PreviewLimit:
    """The most that all runs of a preview together may cost, in one kind of amount; `text` is as the user wrote it."""

    amount: LimitedAmount
    most: float
    text: str

    def is_exceeded(self, preview: Preview) -> bool:
        """Whether the estimate is above the limit; bytes and rows are those read and those written."""
        amounts = preview.amounts
        estimates: dict[LimitedAmount, float] = {
            "bytes": amounts.bytes.expected,
            "rows": amounts.rows.expected,
            "seconds": amounts.seconds.expected,
            "models": preview.run_count,
        }
        return estimates[self.amount] > self.most


def read_preview_limits(label: str, value: Any) -> tuple[PreviewLimit, ...]:
    """Reads limits such as `bytes>1TB,models>20`; raises ConfigError for any other text."""
    return tuple(_read_limit(label, part) for part in str(value).split(","))


def _read_limit(label: str, part: str) -> PreviewLimit:
    text = part.replace(" ", "")
    match = _LIMIT.fullmatch(text)
    unit = _UNITS.get(match[3].upper()) if match is not None else None
    if match is None or unit is None or (match[3] and match[1] != "bytes"):
        raise ConfigError(
            f"`{label}` can't be read.",
            expected="limits on estimates, such as `bytes>1TB,models>20`",
            actual=part,
            fix="use `bytes`, `rows`, `seconds` or `models`, then `>`, then a number; bytes may have a unit such as GB",
        )
    amount: LimitedAmount = match[1]  # type: ignore[assignment]
    return PreviewLimit(amount, float(match[2].replace("_", "")) * unit, text)
