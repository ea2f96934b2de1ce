"""Forms of the marker by which a source replaces values that it does not send, such as Debezium's for TOAST values.

In a text column the marker is a configured text. Columns of other types have an encoding of it that fits the type.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from base64 import b64encode


def list_marker_texts(marker: str) -> tuple[str, ...]:
    """Lists the texts that Debezium writes for the `marker` in JSON events, one for each type of column.

    The types are text, bytes, hstore, and lists of texts, bytes, numbers and UUIDs.
    """
    texts = (marker, to_base64(marker), _dump_json({marker: marker}))
    lists = ([marker], [to_base64(marker)], to_byte_numbers(marker), [to_uuid(marker)])
    return (*texts, *map(_dump_json, lists))


def to_base64(marker: str) -> str:
    return b64encode(marker.encode()).decode()


def to_byte_numbers(marker: str) -> list[int]:
    """Returns the bytes of `marker` as numbers, its encoding in columns with lists of numbers."""
    return list(marker.encode())


def to_uuid(marker: str) -> str:
    """Returns the UUID of `marker` (version 3, no namespace), its encoding in columns with lists of UUIDs."""
    digest = hashlib.md5(marker.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _dump_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
