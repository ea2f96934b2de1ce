"""Parses Spark SQL to sqlglot expressions, and writes these as SQL again, so that Spark can compare both texts.

The comparison shows whether Spark and this parser understand a query in the same way. Literals are written as in the
original text. Each operand that is an operator itself is put in parentheses, so that Spark's tree of the written text
has the same shape as that of this parser, even if operator precedence differs between the grammars.
"""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.hive import HiveParser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

WRITTEN = "written"
"""Argument of a literal's expression with its original text; set if its value alone would be written otherwise."""

WRITTEN_VERSION = 2
"""Version of the SQL that is written and of its check; increase it to make Spark check all queries again."""

_PLAIN_STRING = re.compile(r"'[^'\\$\x00-\x1f\x7f]*'")
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_TYPED_LITERALS = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME"})
_SINGULAR_UNITS = ("NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH")
_UNITS = frozenset(name + end for name in (*_SINGULAR_UNITS, "QUARTER", "YEAR") for end in ("", "S"))

_BINDING = {TokenType.PIPE: 1, TokenType.CARET: 2, TokenType.AMP: 3, TokenType.LT: 4, TokenType.GT: 4}
"""Precedence of bitwise operators by their first token; shifts are two tokens each, and `>>>` is three."""
_SHIFTS: dict[TokenType, type[exp.Binary]] = {
    TokenType.LT: exp.BitwiseLeftShift,
    TokenType.GT: exp.BitwiseRightShift,
}

_LEFT_TO_RIGHT = (
    *(exp.And, exp.Or, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor),
)
"""Left-associative operators: `a ∘ b ∘ c` is parsed as `(a ∘ b) ∘ c`, so that long chains need no parentheses."""


_TEXTS = (exp.DType.CHAR, exp.DType.VARCHAR)
"""Types that Spark treats in casts like strings of any length."""


class Tokenizer(Spark.Tokenizer):
    """Tokenizer in which a doubled quote inside a string is one quote character of the string."""

    STRING_ESCAPES: ClassVar = ["\\", "'", '"']


class Parser(SparkParser):
    """Parser of Spark SQL that corrects sqlglot's parser if Spark's grammar differs; literals keep their text."""

    PRIMARY_PARSERS: ClassVar = {
        **SparkParser.PRIMARY_PARSERS,
        **dict.fromkeys(_STRINGS, lambda self, token: self._build_string(token)),
        TokenType.NUMBER: lambda _, token: exp.Literal(this=token.text, is_string=False),
    }
    UNARY_PARSERS: ClassVar = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: exp.Anonymous(this="POSITIVE", expressions=[self._require(self._parse_unary())]),
        TokenType.DASH: lambda self: self._parse_negative(),
        TokenType.NOT: lambda self: exp.Not(this=_as_operand(self._require(self._parse_equality()))),
    }
    JOINS_HAVE_EQUAL_PRECEDENCE: ClassVar = False
    TERM: ClassVar = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add, TokenType.DPIPE: exp.DPipe}

    def _build_string(self, token: Token) -> exp.Literal:
        """Builds one literal from `token` and all strings that directly follow it, which Spark concatenates."""
        tokens = [token]
        while self._match_set(_STRINGS):
            tokens.append(self._prev)
        written = " ".join(self._slice_text(part) for part in tokens)
        literal = exp.Literal(this="".join(part.text for part in tokens), is_string=True)
        if not _PLAIN_STRING.fullmatch(written):
            literal.set(WRITTEN, written)
        return literal

    def _parse_negative(self) -> exp.Expr | None:
        """Parses the operand of a unary minus; directly before a number, the minus binds tighter than any operator."""
        if not self._match(TokenType.NUMBER):
            return exp.Neg(this=self._require(self._parse_unary()))
        number = exp.Neg(this=exp.Literal(this=self._prev.text, is_string=False))
        return self._parse_column_ops(number)

    def _require(self, operand: exp.Expr | None) -> exp.Expr | None:
        """Returns the operand of an operator; raises ParseError, by the level of errors, if there is none."""
        if operand is None:
            self.raise_error("The operand of an operator is missing")
        return operand

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        expression = self._parse_typed_literal() or super()._parse_type(parse_interval, fallback_to_identifier)
        while expression is not None and self._match(TokenType.COLLATE):
            expression = exp.Collate(this=expression, expression=self._parse_collation())
        return expression

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        """Parses a type, and replaces char and varchar by string.

        sqlglot's method in the Hive parser does the same, but takes half of the time of all parsing.
        """
        parsed = super(HiveParser, self)._parse_types(check_func, schema, allow_identifiers, with_collation)
        if parsed is not None and not schema and not isinstance(parsed, exp.Column | exp.Identifier):
            for kind in parsed.find_all(exp.DataType):
                if kind.this in _TEXTS:
                    kind.set("this", exp.DType.TEXT)
                    kind.set("expressions", None)
        return parsed

    def _parse_collation(self) -> exp.Expr | None:
        named = self._parse_column()
        is_plain = isinstance(named, exp.Column) and not named.table and not named.this.quoted
        return exp.var(named.name) if is_plain and named is not None else named

    def _parse_typed_literal(self) -> exp.Expr | None:
        """Parses a typed literal such as `date '2024-01-31'`, with operators after it such as `::` and `[…]`.

        Returns None if the next tokens are no typed literal.
        """
        if self._curr.text.upper() not in _TYPED_LITERALS or self._next.token_type not in _STRINGS:
            return None
        if self._curr.token_type == TokenType.IDENTIFIER:
            return None
        kind = self._curr.text.upper()
        self._advance(2)
        value = exp.Literal(this=self._prev.text, is_string=True)
        to = exp.DataType.build(kind, dialect=self.dialect)
        cast = exp.Cast(this=value, to=to, written=f"{kind} {self._slice_text(self._prev)}")
        return self._parse_column_ops(cast)

    def _parse_interval(
        self,
        require_interval: bool = True,
        parse_function_unit: bool = True,  # noqa: ARG002 - sqlglot's signature
    ) -> exp.Interval | None:
        """Parses an interval and keeps its text: one string, values with units, or a value from one unit to another."""
        index = self._index
        if not require_interval or not self._match(TokenType.INTERVAL):
            return None
        words: list[str] = []
        while part := self._parse_value_and_unit():
            words += part
        if not words and self._match_set(_STRINGS):
            words = [self._slice_text(self._prev)]
        elif words and self._match_text_seq("TO"):
            words += ["TO", self._curr.text.upper()]
            self._advance()
        if not words:
            self._retreat(index)
            return None
        return exp.Interval(written=" ".join(["INTERVAL", *words]))

    def _parse_value_and_unit(self) -> list[str]:
        index = self._index
        sign = self._prev.text if self._match_set((TokenType.DASH, TokenType.PLUS)) else ""
        if self._match_set((TokenType.NUMBER, *_STRINGS)):
            value = self._slice_text(self._prev)
            unit = self._curr.text.upper()
            if unit in _UNITS and self._curr.token_type != TokenType.IDENTIFIER:
                self._advance()
                return [sign + value, unit]
        self._retreat(index)
        return []

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._bitwise(self._parse_term(), 1)

    def _bitwise(self, left: exp.Expr | None, least: int) -> exp.Expr | None:
        """Parses the bitwise operators that follow `left`, with their operands.

        Stops at an operator whose precedence is below `least`.
        """
        while self._get_precedence() >= least:
            token, binding = self._curr.token_type, self._get_precedence()
            self._advance(2 if token in _SHIFTS else 1)
            is_unsigned = token == TokenType.GT and self._match(TokenType.GT)
            right = self._parse_term()
            while self._get_precedence() > binding:
                right = self._bitwise(right, self._get_precedence())
            if is_unsigned:
                left = exp.Anonymous(this="SHIFTRIGHTUNSIGNED", expressions=[left, right])
            else:
                left = (_SHIFTS.get(token) or self.BITWISE[token])(this=left, expression=right)
        return left

    def _get_precedence(self) -> int:
        token = self._curr.token_type
        is_half = token in _SHIFTS and self._next.token_type != token
        return 0 if is_half else _BINDING.get(token, 0)

    def _slice_text(self, token: Token) -> str:
        return str(self.sql[token.start : token.end + 1])


class Generator(SparkGenerator):
    """Generator that writes expressions as they were parsed, without sqlglot's rewriting between SQL dialects."""

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()
    TRANSFORMS: ClassVar = {
        kind: write
        for kind, write in SparkGenerator.TRANSFORMS.items()
        if kind
        not in (
            *(exp.Select, exp.From, exp.Table, exp.Array, exp.With, exp.WithinGroup),
            *(exp.BitwiseLeftShift, exp.BitwiseRightShift),
        )
    }

    def literal_sql(self, expression: exp.Literal) -> str:
        return expression.args.get(WRITTEN) or super().literal_sql(expression)

    def interval_sql(self, expression: exp.Interval) -> str:
        return expression.args.get(WRITTEN) or super().interval_sql(expression)

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        return expression.args.get(WRITTEN) or super().cast_sql(expression, safe_prefix)

    def binary(self, expression: exp.Binary, op: str) -> str:
        """Writes a binary operator; a chain of one left-associative operator needs no parentheses inside."""
        kind = type(expression)
        rights: list[str] = []
        left: exp.Expr = expression
        while type(left) is kind and (left is expression or kind in _LEFT_TO_RIGHT):
            rights.append(self._write_operand(left.args.get("expression")))
            left = left.this
        return f" {op} ".join([self._write_operand(left), *reversed(rights)])

    def escape_sql(self, expression: exp.Escape) -> str:
        return f"{self.sql(expression, 'this')} ESCAPE {self.sql(expression, 'expression')}"

    def connector_sql(self, expression: exp.Connector, op: str, *_: object) -> str:
        return self.binary(expression, op)

    def mod_sql(self, expression: exp.Mod) -> str:
        return self.binary(expression, "%")

    def neg_sql(self, expression: exp.Neg) -> str:
        return f"-{self._write_operand(expression.this)}"

    def bitwisenot_sql(self, expression: exp.BitwiseNot) -> str:
        return f"~{self._write_operand(expression.this)}"

    def not_sql(self, expression: exp.Not) -> str:
        """Writes a negation; `x IS NOT NULL` is written as an operator of its own instead of a negated `IS NULL`."""
        inner = expression.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return f"{self._write_operand(inner.this)} IS NOT NULL"
        return f"NOT {self._write_operand(inner)}"

    def between_sql(self, expression: exp.Between) -> str:
        this, low, high = (self._write_operand(expression.args[part]) for part in ("this", "low", "high"))
        return f"{this} BETWEEN {low} AND {high}"

    def in_sql(self, expression: exp.In) -> str:
        if expression.args.get("unnest") or expression.args.get("field"):
            return super().in_sql(expression)
        query = expression.args.get("query")
        values = self.sql(query) if query else f"({self.expressions(expression, flat=True)})"
        return f"{self._write_operand(expression.this)} IN {values}"

    def bracket_sql(self, expression: exp.Bracket) -> str:
        return f"{self._write_operand(expression.this)}[{self.expressions(expression, flat=True)}]"

    def dot_sql(self, expression: exp.Dot) -> str:
        return f"{self._write_operand(expression.this)}.{self.sql(expression, 'expression')}"

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        """Writes a join; if its right side contains joins itself, that side is put in parentheses."""
        inner = expression.this
        if inner.args.get("joins"):
            expression = expression.copy()
            expression.set("this", exp.Var(this=f"({self.sql(inner)})"))
        return super().join_sql(expression, join_op)

    def set_operations(self, expression: exp.SetOperation) -> str:
        rights: list[str] = []
        left: exp.Expr = expression
        operation = self.set_operation(expression)
        while isinstance(left, exp.SetOperation) and (left is expression or _is_plainly(left, expression)):
            rights.append(self._query_operand(left.expression))
            left = left.this
        text = f" {operation} ".join([self._query_operand(left), *reversed(rights)])
        return self.prepend_ctes(expression, self.query_modifiers(expression, text))

    def _query_operand(self, operand: exp.Expr) -> str:
        text = self.sql(operand)
        return f"({text})" if isinstance(operand, exp.SetOperation) else text

    def _write_operand(self, operand: exp.Expr | str | None) -> str:
        text = self.sql(operand)
        return f"({text})" if isinstance(operand, exp.Expr) and _is_operator(operand) else text


class ArcticSpark(Spark):
    """The SQL dialect in which the queries of models are parsed and written."""

    Tokenizer = Tokenizer
    Parser = Parser
    Generator = Generator


def tokenize_sql(sql: str) -> list[Token]:
    """Splits SQL into tokens, so that `10L` is one token; raises sqlglot's TokenError for text that is no SQL."""
    tokens_read: list[Token] = []
    waiting = iter(ArcticSpark().tokenize(sql))
    for token in waiting:
        last = tokens_read[-1] if tokens_read else None
        if last is not None and token.token_type == TokenType.DCOLON and token.start == last.start:
            next(waiting)
            last.text = sql[last.start : last.end + 1]
        else:
            tokens_read.append(token)
    return tokens_read


def has_short_table_names(sql: str) -> bool:
    """Whether a query names a table without its schema; names of CTEs count too, as do queries that can't be parsed."""
    try:
        statements = ArcticSpark().parse(sql)
    except SqlglotError:
        return True
    tables = [table for statement in statements if statement is not None for table in statement.find_all(exp.Table)]
    return any(isinstance(table.this, exp.Identifier) and not table.db for table in tables)


def list_literals(sql: str) -> list[str]:
    """Lists the literals in SQL as they are written, sorted, so that those of two texts can be compared."""
    kinds = (*_STRINGS, TokenType.NUMBER, TokenType.HEX_STRING)
    return sorted(sql[token.start : token.end + 1] for token in tokenize_sql(sql) if token.token_type in kinds)


def write_sql(expression: exp.Expr) -> str:
    """Writes an expression as Spark SQL; raises sqlglot's UnsupportedError if Spark has no syntax for it."""
    generator = Generator(dialect=ArcticSpark(), comments=False, unsupported_level=ErrorLevel.RAISE)
    return generator.generate(expression, copy=False)


def _as_operand(operand: exp.Expr | None) -> exp.Expr | None:
    return exp.Paren(this=operand) if isinstance(operand, exp.Is) else operand


def _is_operator(operand: exp.Expr) -> bool:
    if isinstance(operand, exp.Paren | exp.Dot) or operand.args.get(WRITTEN):
        return isinstance(operand, exp.Interval)
    return isinstance(operand, exp.Binary | exp.Unary | exp.Between | exp.In | exp.Interval)


def _is_plainly(inner: exp.SetOperation, outer: exp.SetOperation) -> bool:
    """Whether `inner`, the left side of `outer`, is the same set operation, so that it needs no parentheses.

    False if `inner` has clauses such as ORDER BY, or if `outer` matches columns by name.
    """
    own = {name for name, value in inner.args.items() if value} - {"this", "expression", "distinct"}
    is_same = type(inner) is type(outer) and inner.args.get("distinct") == outer.args.get("distinct")
    return is_same and not own and not outer.args.get("by_name")
