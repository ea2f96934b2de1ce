"""Types: a text is read back as the type that it was written from, and no other text is a type."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arctic_runtime.spark.engine.statement import fill_statement, type_name
from arctic_runtime.sql.types import Array, Map, Primitive, Struct, Type, list_field_names, read_type, type_text

CRAFTED = (
    "a:string>) IS NULL OR reflect('java.lang.System','setProperty','a','b') IS NULL OR "
    "named_struct('b','') = CAST(NULL AS struct<b"
)
_names = st.text(st.sampled_from("ab `<>:,()'\"\\;-{}日\n\x00") | st.characters(exclude_categories=("Cs",)), max_size=9)
_primitives = st.sampled_from(["int", "string", "decimal(10,2)", "timestamp_ntz"]).map(Primitive)


def _larger(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.lists(st.tuples(_names, inner), min_size=1, max_size=3).map(tuple)
    return st.builds(Array, inner) | st.builds(Map, inner, inner) | st.builds(Struct, fields)


_types: st.SearchStrategy[Type] = st.recursive(_primitives, _larger, max_leaves=5)


@settings(max_examples=100)
@given(_types)
@example(Struct((("a b", Primitive("int")), ("select", Primitive("int")))))
@example(Array(Struct(((CRAFTED, Primitive("string")),))))
def test_a_type_is_read_back_from_its_text(kind: Type) -> None:
    assert read_type(type_text(kind)) == kind


@settings(max_examples=50)
@given(_types.filter(lambda kind: not any("${" in field or not field for field in list_field_names(kind))))
@example(Struct(((CRAFTED, Primitive("string")),)))
def test_a_type_in_a_statement_is_one_type_to_a_parser(kind: Type) -> None:
    cast = fill_statement("SELECT CAST(NULL AS {kind}) AS a", kind=type_name(type_text(kind)))
    (projection,) = sqlglot.parse_one(cast, dialect="spark").expressions
    assert isinstance(projection.this, sqlglot.exp.Cast)
    names = [part.name for part in projection.find_all(sqlglot.exp.ColumnDef)]
    assert sorted(names) == sorted(list_field_names(kind))


@pytest.mark.parametrize(
    "text",
    [
        f"struct<{CRAFTED}:string>",
        "struct<unit price:string>",
        "int) or (true",
        "int--",
        "array<int",
        "",
        "string or x",
    ],
)
def test_no_other_text_is_a_type(text: str) -> None:
    with pytest.raises(ValueError, match="not the text of a type"):
        type_name(text)


def test_names_are_quoted_only_where_they_are_shown_so() -> None:
    assert type_text(read_type("STRUCT<a: INT, `b c`: array< struct<d:int>>>")) == (
        "struct<a:INT,`b c`:array<struct<d:int>>>"
    )
    assert type_name("struct<a:int>") == "struct<`a`:int>"
