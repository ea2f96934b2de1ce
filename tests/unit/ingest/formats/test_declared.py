"""Columns are declared by Spark's types and an encoding that fits; anything else is refused by name."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.debezium import ENCODINGS
from arctic_runtime.ingest.formats.declared import (
    AS_TEXT,
    FAMILIES,
    FITTING,
    build_declared_column,
    build_declared_schema,
)
from arctic_runtime.ingest.formats.event_format import Encoding, SourceColumn

EXAMPLES = {**{family: family for family in FAMILIES}, "decimal": "decimal(12,3)", "array": "array<decimal(5,2)>"}
PAIRS = [(family, encoding) for encoding, families in FITTING.items() for family in families]


@given(st.sampled_from(PAIRS), st.sampled_from([" as ", "  AS ", "\tas\n"]), st.booleans())
def test_every_fitting_pair_of_type_and_encoding_can_be_declared(
    pair: tuple[str, Encoding], word: str, upper: bool
) -> None:
    family, encoding = pair
    type_ = EXAMPLES[family]
    column = build_declared_column("c", f" {type_.upper() if upper else type_}{word}{encoding} ")
    assert column == SourceColumn("c", type_, encoding)


@given(st.sampled_from(sorted(FAMILIES)), st.sampled_from(get_args(Encoding)))
def test_an_encoding_that_does_not_fit_is_refused(family: str, encoding: Encoding) -> None:
    if (family, encoding) in PAIRS:
        return
    with pytest.raises(ConfigError, match="column mine "):
        build_declared_column("mine", f"{EXAMPLES[family]} as {encoding}")


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_type_has_a_fitting_encoding_without_a_declared_one(family: str) -> None:
    assert build_declared_column("c", EXAMPLES[family]).encoding == AS_TEXT[family]


def test_debezium_leaves_the_unit_of_timestamps_without_zone_to_the_user() -> None:
    with pytest.raises(ConfigError, match=r"column at .*(?s:.*)timestamp_ntz as epoch_millis or epoch_micros"):
        build_declared_column("at", "timestamp_ntz", ENCODINGS)
    assert build_declared_column("at", "timestamp_ntz as epoch_micros", ENCODINGS).encoding == "epoch_micros"
    assert build_declared_column("d", "date", ENCODINGS).encoding == "epoch_days"


@pytest.mark.parametrize("text", ["", "as plain", "decimal(39,2)", "decimal", "map<string,int>", "int or so", "x" * 99])
def test_an_unknown_type_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="column mine "):
        build_declared_column("mine", text)


@given(st.sampled_from(["tinyint", "smallint", "integer"]))
def test_integers_get_at_least_the_32_bits_that_iceberg_has(text: str) -> None:
    assert build_declared_column("c", text).type == "int"


def test_a_key_is_made_of_columns() -> None:
    assert build_declared_schema({"a": "int", "b": "string"}, ["b"]).key == ("b",)
    with pytest.raises(ConfigError, match=r"doesn't have: c(?s:.*)some of a, b"):
        build_declared_schema({"a": "int", "b": "string"}, ["b", "c"])


def test_names_that_differ_in_case_alone_are_refused() -> None:
    with pytest.raises(ConfigError, match="ID, id"):
        build_declared_schema({"id": "int", "x": "int", "ID": "int"}, [])
