"""Masks columns in DuckDB, with the hashes that `Mask` computes: equal values of a column have the same hash."""

from __future__ import annotations

from hashlib import sha256

from sqlglot import exp

from arctic_runtime.model.masking import SHOWN_DIGITS, Mask
from arctic_runtime.query.duckdb_types import call, cast, number, text
from arctic_runtime.sql.types import Primitive, Struct, Type, format_struct_type, read_type, type_text

_TEXT = "string"


def get_masked_type(name: str, of_type: str, mask: Mask) -> str:
    """Returns the type of a column as queries see it: masked values are texts, also in the fields of a struct."""
    if mask.hides_column(name):
        return _TEXT
    kind = _read_struct(of_type)
    if kind is None:
        return of_type
    return format_struct_type((own, get_masked_type(own, type_text(part), mask)) for own, part in kind.fields)


def hides_any(name: str, of_type: str, mask: Mask) -> bool:
    """Whether a column, or a field in it, is masked."""
    kind = _read_struct(of_type)
    inside = [] if kind is None else [hides_any(own, type_text(part), mask) for own, part in kind.fields]
    return mask.hides_column(name) or any(inside)


def mask_value(value: exp.Expr, name: str, of_type: str, mask: Mask) -> exp.Expr:
    """Builds the value of a column that queries see; `of_type` is its type in the table."""
    if mask.hides_column(name):
        return _hash(cast(value, _TEXT) if of_type != _TEXT else value, name.lower(), mask)
    if of_type == _TEXT:
        for secret in mask.secrets:
            value = call("replace", value, text(secret), text(str(mask.hide_value("", secret))))
        return value
    kind = _read_struct(of_type)
    if kind is None or not (mask.secrets or hides_any(name, of_type, mask)):
        return value
    parts = [
        exp.PropertyEQ(
            this=exp.to_identifier(own, quoted=True),
            expression=mask_value(call("struct_extract", value.copy(), text(own)), own, type_text(part), mask),
        )
        for own, part in kind.fields
    ]
    is_null = exp.Is(this=value.copy(), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=is_null, true=exp.Null())], default=exp.Struct(expressions=parts))


def _read_struct(of_type: str) -> Struct | None:
    try:
        kind: Type = read_type(of_type)
    except ValueError:
        kind = Primitive(of_type)
    return kind if isinstance(kind, Struct) else None


def _hash(value: exp.Expr, scope: str, mask: Mask) -> exp.Expr:
    """Builds the HMAC of a text with the mask's key, which DuckDB has no function for, of two hashes."""
    inner_key, outer_key = (
        bytes(byte ^ pad for byte in mask.key.ljust(sha256().block_size, b"\0")) for pad in (0x36, 0x5C)
    )
    message = exp.DPipe(this=_blob(inner_key + f"{scope}\0".encode()), expression=call("encode", value))
    inner = call("unhex", call("sha256", message))
    digest = call("sha256", exp.DPipe(this=_blob(outer_key), expression=inner))
    shown = call("substring", digest, number(1), number(SHOWN_DIGITS))
    return exp.DPipe(this=text("masked:"), expression=shown)


def _blob(content: bytes) -> exp.Expr:
    return call("unhex", text(content.hex()))
