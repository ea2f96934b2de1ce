"""Dead letters that a commit has applied stand in its summary, few or many."""

from __future__ import annotations

from arctic_runtime.ingest.dead_letters.table import decode_ids, encode_ids


def test_letters_are_read_as_they_were_written_in_ranges() -> None:
    letters = [(7, -1, number) for number in (1, 2, 3, 5, 9, 10)] + [(8, 2, 1)]
    text = encode_ids(letters)
    assert text == "[[7,-1,[[1,3],[5,5],[9,10]]],[8,2,[[1,1]]]]"
    assert decode_ids(text) == set(letters)
