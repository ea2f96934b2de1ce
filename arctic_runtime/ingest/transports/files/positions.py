"""Positions in a folder of files: the number of the last batch that was read."""

from __future__ import annotations

import json

from arctic_runtime.model.sources.positions import ParsedPosition, keep_opaque


def format_position(number: int) -> str:
    return json.dumps({"batch": number})


def parse_number(position: str) -> int:
    return int(json.loads(position)["batch"])


def parse_position(position: str) -> ParsedPosition:
    """Parses the text of a position to the number of its batch.

    Any other text is kept unparsed, so that it can't be compared with positions.
    """
    try:
        number = parse_number(position)
    except (ValueError, TypeError, KeyError):
        return keep_opaque(position)
    return ParsedPosition(position, f"batch {number} of files", {"files": number}, is_transaction_end=True)
