"""Names in DuckDB of Spark's types, and expressions of DuckDB's SQL that are written as they are built."""

from __future__ import annotations

from sqlglot import exp

from arctic_runtime.query.refusal import NotAnswered
from arctic_runtime.sql.types import Array, Map, Primitive, Struct, Type, read_type

DIALECT = "duckdb"

_PLAIN = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}


def to_duckdb_type(spark_type: str) -> str:
    """Returns DuckDB's text for a type that is given as Spark writes it; raises NotAnswered for any other type."""
    return _write_type(read_type(spark_type))


def _write_type(kind: Type) -> str:
    match kind:
        case Primitive(text) if text in _PLAIN:
            return _PLAIN[text]
        case Primitive(text) if text.startswith("decimal("):
            return text.upper()
        case Array(element):
            return f"{_write_type(element)}[]"
        case Map(key, value):
            return f"MAP({_write_type(key)}, {_write_type(value)})"
        case Struct(fields):
            return f"STRUCT({', '.join(f'{_quote(name)} {_write_type(part)}' for name, part in fields)})"
    raise NotAnswered(f"a column of the type {kind.text}" if isinstance(kind, Primitive) else "a column of this type")


def _quote(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect=DIALECT)


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Builds the call of a function of DuckDB, which is written with this name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(value: exp.Expr, spark_type: str) -> exp.Cast:
    """Builds the cast of an expression of DuckDB to the type that Spark calls `spark_type`."""
    return exp.Cast(this=value, to=exp.DataType.build(to_duckdb_type(spark_type), dialect=DIALECT))


def text(value: str) -> exp.Literal:
    """Builds a string literal; raises NotAnswered for a text that DuckDB can't hold."""
    if "\0" in value:
        raise NotAnswered("a text with the character 0")
    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    """Builds a literal of a whole number, negative ones in parentheses."""
    literal = exp.Literal.number(abs(value))
    return literal if value >= 0 else exp.Paren(this=exp.Neg(this=literal))


def column(name: str, table: str | None = None) -> exp.Column:
    """Builds a quoted column name."""
    qualifier = None if table is None else exp.to_identifier(table, quoted=True)
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=qualifier)


def write_duckdb(expression: exp.Expr) -> str:
    """Writes an expression that was built for DuckDB as text."""
    return expression.sql(dialect=DIALECT, comments=False)
