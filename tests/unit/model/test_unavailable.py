"""The text that stands for a value which was not sent, in the forms of columns of other types."""

from __future__ import annotations

import base64
import json
import uuid

from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.unavailable import base64_of, numbers_of, texts_of, uuid_of

DEBEZIUM = "__debezium_unavailable_value"


def test_the_forms_are_those_that_debezium_writes() -> None:
    assert uuid_of(DEBEZIUM) == "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
    assert texts_of(DEBEZIUM)[:3] == (
        DEBEZIUM,
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        '{"__debezium_unavailable_value":"__debezium_unavailable_value"}',
    )


@given(st.text(min_size=1))
def test_every_form_leads_back_to_the_marker(marker: str) -> None:
    own, encoded, entries, *lists = texts_of(marker)
    texts, of_bytes, numbers, uuids = map(json.loads, lists)
    assert own == marker
    assert base64.b64decode(encoded).decode() == marker == bytes(numbers_of(marker)).decode()
    assert (json.loads(entries), texts, of_bytes) == ({marker: marker}, [marker], [base64_of(marker)])
    assert (numbers, uuids) == (numbers_of(marker), [uuid_of(marker)])
    assert uuid.UUID(uuid_of(marker)).version == 3
