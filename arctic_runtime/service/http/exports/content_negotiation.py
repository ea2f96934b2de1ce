"""Chooses the format of rows by the Accept header of a request."""

from __future__ import annotations

from arctic_runtime.operations.row_formats import ROW_FORMATS, RowFormat


def choose_format(accept: str) -> RowFormat | None:
    """Returns the format of rows that an Accept header prefers; None if the header accepts none of the formats.

    Among formats that the header accepts with the same weight, the first in `ROW_FORMATS` is chosen.
    """
    weights = {known: _weigh_type(known.media_type, accept) for known in ROW_FORMATS.values()}
    best = max(weights, key=lambda known: weights[known])
    return best if weights[best] > 0 else None


def _weigh_type(media_type: str, accept: str) -> float:
    """Returns the weight of a media type in an Accept header, from 0 to 1, by the most specific range that matches."""
    ranges = (media_type, f"{media_type.split('/', maxsplit=1)[0]}/*", "*/*")
    weights: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        texts = (parameter[2:] for parameter in parameters if parameter.startswith("q="))
        weights[name] = _parse_weight(next(texts, "1"))
    return next((weights[name] for name in ranges if name in weights), 0.0)


def _parse_weight(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0
