"""A text in the place of a value that a source did not send, such as Debezium's for a value that is kept out of line.

Columns of other types than text hold it in a form of their own.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from base64 import b64encode


def list_marker_texts(marker: str) -> tuple[str, ...]:
    """The marker as texts or JSON have it: text, bytes, hstore, and lists of texts, bytes, numbers and uuids."""
    texts = (marker, to_base64(marker), _dump_json({marker: marker}))
    lists = ([marker], [to_base64(marker)], to_byte_numbers(marker), [to_uuid(marker)])
    return (*texts, *map(_dump_json, lists))


def to_base64(marker: str) -> str:
    return b64encode(marker.encode()).decode()


def to_byte_numbers(marker: str) -> list[int]:
    """The marker's bytes, as lists of numbers hold it."""
    return list(marker.encode())


def to_uuid(marker: str) -> str:
    """The marker as a name-based UUID, version 3 without a namespace."""
    digest = hashlib.md5(marker.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _dump_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
