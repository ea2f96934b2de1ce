"""Types of MySQL become types that hold each of their values, or are refused by the column's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats import canal, maxwell
from arctic_runtime.ingest.formats.event_format import SourceColumn
from arctic_runtime.ingest.formats.mysql_types import (
    MYSQL_TYPES,
    WIDEST_DECIMAL,
    MysqlType,
    Rendering,
    build_mysql_column,
    read_mysql_type,
)

CANAL = canal.RENDERING
CANAL_IN_UTC = canal.get_rendering("UTC")
MAXWELL = maxwell.RENDERING
BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
LARGEST = {"int": 2**31 - 1, "bigint": 2**63 - 1, "decimal(20,0)": 10**20 - 1}

_labels = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=8).map(tuple)


def quoted(label: str) -> str:
    """A label as `show create table` writes it."""
    escapes = {"\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r", "'": "''"}
    return "'" + "".join(escapes.get(character, character) for character in label) + "'"


@given(
    _labels, st.sampled_from(["enum", "set", "ENUM"]), st.sampled_from(["", " charset utf8mb4", " COLLATE utf8_bin"])
)
def test_labels_are_read_as_they_were_written(labels: tuple[str, ...], name: str, rest: str) -> None:
    kind = read_mysql_type(f"{name}({','.join(map(quoted, labels))}){rest}")
    assert kind is not None
    assert (kind.name, kind.labels) == (name.lower(), labels)


@given(st.sampled_from(sorted(BITS)), st.booleans(), st.sampled_from(["", "(1)", "(11)"]), st.booleans())
def test_integers_get_a_type_that_holds_their_largest_value(name: str, unsigned: bool, width: str, upper: bool) -> None:
    text = f"{name}{width}{' unsigned' if unsigned else ''}"
    column = build_mysql_column("n", text.upper() if upper else text, CANAL)
    assert column.encoding == "plain"
    assert 2 ** (BITS[name] - (not unsigned)) - 1 <= LARGEST[column.type]


@given(st.integers(1, 65), st.integers(0, 30))
def test_decimals_keep_their_digits_or_are_refused_by_name(precision: int, scale: int) -> None:
    text = f"decimal({max(precision, scale)}, {scale})"
    if max(precision, scale) > WIDEST_DECIMAL:
        with pytest.raises(ConfigError, match=r"Column price .* Canal"):
            build_mysql_column("price", text, CANAL)
    else:
        expected = SourceColumn("price", f"decimal({max(precision, scale)},{scale})")
        assert build_mysql_column("price", text, CANAL) == expected


@pytest.mark.parametrize(
    ("text", "type_", "of_canal", "of_maxwell"),
    [
        ("date", "date", "date_text", "date_text"),
        ("datetime(6)", "timestamp_ntz", "local_timestamp", "local_timestamp"),
        ("timestamp", "timestamp", "zoneless_timestamp", "zoneless_timestamp"),
        ("year(4)", "int", "plain", "plain"),
        ("json", "string", "plain", "json"),
        ("longblob", "binary", "latin1", "base64"),
        ("varbinary(20)", "binary", "latin1", "base64"),
        ("enum('a','b')", "string", "enum_index", "plain"),
        ("set('a','b')", "string", "set_bits", "set_array"),
        ("bit(1)", "boolean", "zero_one", "zero_one"),
        ("bit(8)", "bigint", "plain", "plain"),
        ("varchar(255) character set latin1", "string", "plain", "plain"),
        ("char(3) COLLATE utf8mb4_bin", "string", "plain", "plain"),
        ("double precision", "double", "plain", "plain"),
        ("float unsigned", "float", "plain", "plain"),
        ("dec", "decimal(10,0)", "plain", "plain"),
        ("serial", "decimal(20,0)", "plain", "plain"),
        ("bool", "int", "plain", "plain"),
        ("int(5) zerofill", "bigint", "plain", "plain"),
    ],
)
def test_types_are_the_same_in_every_format_and_encodings_are_the_tools(
    text: str, type_: str, of_canal: str, of_maxwell: str
) -> None:
    for rendering, encoding in ((CANAL_IN_UTC, of_canal), (MAXWELL, of_maxwell)):
        column = build_mysql_column("c", text, rendering)
        assert (column.name, column.type, column.encoding) == ("c", type_, encoding)


@given(st.integers(1, 255))
def test_fixed_binaries_get_back_the_zero_bytes_that_the_binlog_cuts_off(length: int) -> None:
    assert build_mysql_column("b", f"binary({length})", CANAL).padded_to == length
    assert build_mysql_column("b", f"varbinary({length})", CANAL).padded_to is None


@pytest.mark.parametrize(
    ("text", "rendering", "reason"),
    [
        ("", CANAL, r"\(none\)"),
        ("uuid", CANAL, "a type of MySQL"),
        ("vector(3)", MAXWELL, "a type of MySQL"),
        ("int(3", CANAL, "a type of MySQL"),
        ("enum", CANAL, "labels"),
        ("timestamp", CANAL, "set `zone` to the time zone of the Canal server"),
        ("time", MAXWELL, "modulo a day"),
        ("point", MAXWELL, "reference system"),
        ("bit(9)", MAXWELL, r"at most bit\(8\)"),
    ],
)
def test_what_cannot_be_exact_is_refused_by_the_columns_name(text: str, rendering: Rendering, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)Column of_mine .*{reason}"):
        build_mysql_column("of_mine", text, rendering)


@pytest.mark.parametrize("rendering", [CANAL, MAXWELL], ids=lambda rendering: rendering.tool)
@pytest.mark.parametrize("name", MYSQL_TYPES)
def test_every_type_can_be_kept_as_text(name: str, rendering: Rendering) -> None:
    assert read_mysql_type(name) == MysqlType(name)
    assert build_mysql_column("c", " String", rendering) == SourceColumn("c", "string")
