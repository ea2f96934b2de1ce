"""The media type of an answer, as the Accept header of a request weighs it."""

from __future__ import annotations

import pytest

from arctic_runtime.operations.row_formats import FORMATS_BY_MEDIA_TYPE
from arctic_runtime.service.http.media_types import choose_media_type

ARROW, LINES, CSV = FORMATS_BY_MEDIA_TYPE


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("*/*", ARROW),
        ("text/*", CSV),
        ("application/*;q=0.5, text/csv", CSV),
        (f"{ARROW};q=0, */*", LINES),
        ("text/html, application/jsonl ; q=0.1", LINES),
        ("text/html", None),
        ("*/*;q=much", None),
        ("", None),
    ],
)
def test_the_media_type_is_the_one_that_weighs_most(accept: str, chosen: str | None) -> None:
    assert choose_media_type(accept, (ARROW, LINES, CSV)) == chosen
