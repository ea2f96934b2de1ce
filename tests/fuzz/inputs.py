"""Strategies: hostile texts, JSON, and entries of a corpus with random mutations."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.hostile import FRAGMENTS

CORPUS = Path(__file__).with_name("corpus")
MOST_EDITS = 4

HOSTILE_TEXT = st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=12))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from((0, -1, 1, 2**31, 2**63, 10**30)),
    st.floats(),
    HOSTILE_TEXT,
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(HOSTILE_TEXT, inner, max_size=3)),
    max_leaves=6,
)


@cache
def read_corpus(name: str) -> tuple[Any, ...]:
    """Returns the entries of a file of the corpus, which is a JSON list."""
    return tuple(json.loads((CORPUS / f"{name}.json").read_text(encoding="utf-8")))


@st.composite
def mutate_value(draw: st.DrawFn, entries: Sequence[Any], words: Sequence[str] = ()) -> Any:
    """Draws an entry with a few changes: values replaced, keys renamed, added or left out, parts exchanged."""
    value = copy.deepcopy(draw(st.sampled_from(entries)))
    for _ in range(draw(st.integers(0, MOST_EDITS))):
        value = _edit_value(draw, value, entries, words)
    return value


def _edit_value(draw: st.DrawFn, value: Any, entries: Sequence[Any], words: Sequence[str]) -> Any:
    """Changes one part of a value, at a random path."""
    places = list(_list_places(value))
    if not places:
        return draw(JSON)
    owner, key = draw(st.sampled_from(places))
    way = draw(st.sampled_from(("replace", "drop", "rename", "copy", "text")))
    if way == "drop":
        del owner[key]
    elif way == "rename" and isinstance(owner, dict):
        owner[draw(st.one_of(st.sampled_from(words), HOSTILE_TEXT) if words else HOSTILE_TEXT)] = owner.pop(key)
    elif way == "copy":
        other = list(_list_places(draw(st.sampled_from(entries))))
        if other:
            from_owner, from_key = draw(st.sampled_from(other))
            owner[key] = copy.deepcopy(from_owner[from_key])
    elif way == "text" and isinstance(owner[key], str):
        owner[key] = _edit_text(draw, owner[key], [owner[key]])
    else:
        owner[key] = draw(JSON)
    return value


def _list_places(value: Any) -> list[tuple[Any, Any]]:
    """Lists the places of a value as pairs of a list or a mapping, and an index or a key of it."""
    keys: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value)) if isinstance(value, list) else ())
    )
    return [place for key in keys for place in ((value, key), *_list_places(value[key]))]


@st.composite
def mutate_text(draw: st.DrawFn, entries: Sequence[str], words: Sequence[str] = ()) -> str:
    """Draws a text with a few changes: parts left out, doubled, replaced by those of other entries or hostile ones."""
    text = draw(st.sampled_from(entries))
    for _ in range(draw(st.integers(0, MOST_EDITS))):
        text = _edit_text(draw, text, entries, words)
    return text


def _edit_text(draw: st.DrawFn, text: str, entries: Sequence[str], words: Sequence[str] = ()) -> str:
    start = draw(st.integers(0, len(text)))
    end = min(len(text), start + draw(st.integers(0, 12)))
    way = draw(
        st.sampled_from(
            ("drop", "double", "insert", "splice", "word") if words else ("drop", "double", "insert", "splice")
        )
    )
    if way == "drop":
        return text[:start] + text[end:]
    if way == "double":
        return text[:end] + text[start:]
    if way == "insert":
        return text[:start] + draw(HOSTILE_TEXT) + text[end:]
    if way == "word":
        return f"{text[:start]} {draw(st.sampled_from(words))} {text[end:]}"
    other = draw(st.sampled_from(entries))
    begin = draw(st.integers(0, len(other)))
    return text[:start] + other[begin : begin + draw(st.integers(1, 40))] + text[end:]


@st.composite
def mutate_tokens(draw: st.DrawFn, entries: Sequence[str]) -> str:
    """Draws a text whose words are exchanged with words of other entries, so that it often stays well-formed."""
    words = draw(st.sampled_from(entries)).split(" ")
    for _ in range(draw(st.integers(0, MOST_EDITS))):
        place = draw(st.integers(0, len(words) - 1))
        others = draw(st.sampled_from(entries)).split(" ")
        begin = draw(st.integers(0, len(others) - 1))
        words[place : place + draw(st.integers(0, 2))] = others[begin : begin + draw(st.integers(0, 3))]
        words = words or ["select"]
    return " ".join(words)
