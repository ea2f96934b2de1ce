"""Chooses the media type of an answer by the Accept header of a request, as RFC 9110 describes it."""

from __future__ import annotations

from collections.abc import Sequence

from arctic_runtime.errors import ArcticError


def choose_media_type(accept: str, offered: Sequence[str]) -> str | None:
    """Returns the offered media type that an Accept header prefers; None if the header accepts none of them.

    Among types that the header accepts with the same weight, the first is chosen.
    """
    weights = {media_type: _weigh_type(media_type, accept) for media_type in offered}
    best = max(weights, key=lambda media_type: weights[media_type])
    return best if weights[best] > 0 else None


def build_type_error(offered: Sequence[str]) -> ArcticError:
    """Builds the error for a request that accepts none of the offered media types."""
    return ArcticError("No accepted media type is offered here.", expected=", ".join(offered))


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
