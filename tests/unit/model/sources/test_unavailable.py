"""The text that stands for a value which was not sent, in the forms of columns of other types."""

from __future__ import annotations

import base64
import json
import uuid

from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.sources.unavailable import list_marker_texts, to_base64, to_byte_numbers, to_uuid

DEBEZIUM = "__debezium_unavailable_value"


def test_the_forms_are_those_that_debezium_writes() -> None:
    assert to_uuid(DEBEZIUM) == "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
    assert list_marker_texts(DEBEZIUM)[:3] == (
        DEBEZIUM,
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        '{"__debezium_unavailable_value":"__debezium_unavailable_value"}',
    )


@given(st.text(min_size=1))
def test_every_form_leads_back_to_the_marker(marker: str) -> None:
    own, encoded, entries, *lists = list_marker_texts(marker)
    texts, of_bytes, numbers, uuids = map(json.loads, lists)
    assert own == marker
    assert base64.b64decode(encoded).decode() == marker == bytes(to_byte_numbers(marker)).decode()
    assert (json.loads(entries), texts, of_bytes) == ({marker: marker}, [marker], [to_base64(marker)])
    assert (numbers, uuids) == (to_byte_numbers(marker), [to_uuid(marker)])
    assert uuid.UUID(to_uuid(marker)).version == 3
