"""Queries in other spellings, and their normal forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import duckdb

from arctic_runtime.ivm.algebra.tree import Node
from arctic_runtime.ivm.canonical.tree import canonicalize_query
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.render import name_input
from arctic_runtime.model.names import TableName
from arctic_runtime.sql.spark_sql import tokenize_sql
from tests.unit.ivm.analysed_queries import RELATIONS, VIEWS, random_rows
from tests.unit.ivm.duck import CATALOG, SCHEMA, alias, connect, load

_GAPS = (" ", "  ", "\n", "\t", " -- remark\n", " /* a, b */ ")
_TYPES = frozenset({"string", "bigint", "int"})


@contextmanager
def load_tables(seed: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with random tables."""
    with connect() as con:
        for name, content in random_rows(Random(seed)).items():
            source = TableName(CATALOG, SCHEMA, name)
            load(con, source, RELATIONS[f"lake.raw.{name}"].columns, content)
            alias(con, name_input(source, "new"), source)
        yield con


def canonicalize(sql: str) -> Node:
    """The normal form of a query."""
    return canonicalize_query(analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA))


def has_one_form(one: str, other: str) -> bool:
    """Whether two queries have the same normal form."""
    return canonicalize(one) == canonicalize(other)


def respell(sql: str, draw: Random) -> str:
    """A query with other white space, comments, letter case, and names that the query itself gives."""
    texts = [sql[token.start : token.end + 1] for token in tokenize_sql(sql)]
    names = {name: f"{name}_{draw.randrange(9)}" for name in _list_given_names(sql)}
    # The analysis keeps the case of a lambda's variables.
    has_lambda = "->" in texts

    def respell_word(text: str) -> str:
        is_word = re.fullmatch(r"[a-z_]+", text) is not None and not has_lambda
        return names.get(text) or (text.upper() if is_word and draw.random() < 0.5 else text)

    return "".join(f"{respell_word(text)}{draw.choice(_GAPS)}" for text in texts)


def _list_given_names(sql: str) -> set[str]:
    """Names of columns, tables and CTEs that stand after AS or before `as (`, and that no table or view has."""
    given = {*re.findall(r"\bas (\w+)\b", sql), *re.findall(r"(?:\bwith|,) (\w+)(?:\([\w, ]+\))? as \(", sql)}
    stored = {word for name in (*RELATIONS, *VIEWS) for word in name.split(".")}
    stored |= {column.name for relation in RELATIONS.values() for column in relation.columns}
    return given - stored - {"item", "cost"} - _TYPES
