"""Finds the tables that a query reads, and functions in it that depend on the time, the session or random numbers.

The names of Spark's built-in functions that always return the same value for the same arguments stand here in upper
case. Functions that depend on the session or the time are left out of them on purpose: the module `functions` refuses a
call of any function without an entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokens import Token, TokenType

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.aggregate_functions import AGGREGATE_FUNCTIONS
from arctic_runtime.ivm.algebra.clock import CLOCK_FUNCTIONS
from arctic_runtime.model.columns import POSITION
from arctic_runtime.model.names import TableName


def _load_names(*texts: str) -> frozenset[str]:
    return frozenset(name for text in texts for name in text.split())


AGGREGATES = frozenset(function.name for function in AGGREGATE_FUNCTIONS)

WINDOW_FUNCTIONS = _load_names("""
    CUME_DIST DENSE_RANK LAG LEAD NTH_VALUE NTILE PERCENT_RANK RANK ROW_NUMBER
""")

GENERATORS = _load_names("""
    EXPLODE EXPLODE_OUTER INLINE INLINE_OUTER JSON_TUPLE POSEXPLODE POSEXPLODE_OUTER STACK
""")

_NUMBERS = """
    ABS ACOS ACOSH ASIN ASINH ATAN ATAN2 ATANH BIN BROUND CBRT CEIL CEILING CONV COS COSH COT CSC DEGREES E EXP EXPM1
    FACTORIAL FLOOR GREATEST HYPOT LEAST LN LOG LOG10 LOG1P LOG2 MOD NEGATIVE PI PMOD POSITIVE POW POWER RADIANS RINT
    ROUND SEC SIGN SIGNUM SIN SINH SQRT TAN TANH TRY_ADD TRY_DIVIDE TRY_MOD TRY_MULTIPLY TRY_SUBTRACT WIDTH_BUCKET
    BITCOUNT BIT_COUNT BIT_GET GETBIT SHIFTLEFT SHIFTRIGHT SHIFTRIGHTUNSIGNED DIV NANVL ISNAN
"""

_TEXT = """
    ASCII BASE64 BIT_LENGTH BTRIM CHAR CHARACTER_LENGTH CHAR_LENGTH CHR COLLATE COLLATION CONCAT CONCAT_WS CONTAINS
    DECODE ELT ENCODE ENDSWITH FIND_IN_SET FORMAT_NUMBER FORMAT_STRING HEX INITCAP INSTR IS_VALID_UTF8 LCASE LEFT LEN
    LENGTH LEVENSHTEIN LIKE ILIKE LOCATE LOWER LPAD LTRIM LUHN_CHECK MAKE_VALID_UTF8 MASK OCTET_LENGTH OVERLAY
    PARSE_URL TRY_PARSE_URL POSITION PRINTF QUOTE REGEXP REGEXP_COUNT REGEXP_EXTRACT REGEXP_EXTRACT_ALL REGEXP_INSTR
    REGEXP_LIKE REGEXP_REPLACE REGEXP_SUBSTR REPEAT REPLACE REVERSE RIGHT RLIKE RPAD RTRIM SENTENCES SOUNDEX SPACE
    SPLIT SPLIT_PART STARTSWITH STRING SUBSTR SUBSTRING SUBSTRING_INDEX TO_BINARY TO_CHAR TO_NUMBER TO_VARCHAR
    TRANSLATE TRIM TRY_TO_BINARY TRY_TO_NUMBER TRY_VALIDATE_UTF8 UCASE UNBASE64 UNHEX UPPER URL_DECODE URL_ENCODE
    TRY_URL_DECODE VALIDATE_UTF8
"""

_TIME = """
    ADD_MONTHS CONVERT_TIMEZONE DATEADD DATEDIFF DATEPART DATE_ADD DATE_DIFF DATE_FORMAT DATE_FROM_UNIX_DATE DATE_PART
    DATE_SUB DATE_TRUNC DAY DAYNAME DAYOFMONTH DAYOFWEEK DAYOFYEAR EXTRACT FROM_UNIXTIME FROM_UTC_TIMESTAMP HOUR
    LAST_DAY MAKE_DATE MAKE_DT_INTERVAL MAKE_INTERVAL MAKE_TIME MAKE_TIMESTAMP MAKE_TIMESTAMP_LTZ MAKE_TIMESTAMP_NTZ
    MAKE_YM_INTERVAL MINUTE MONTH MONTHNAME MONTHS_BETWEEN NEXT_DAY QUARTER SECOND TIMESTAMPADD TIMESTAMPDIFF
    TIMESTAMP_MICROS TIMESTAMP_MILLIS TIMESTAMP_SECONDS TIME_DIFF TIME_TRUNC TO_DATE TO_TIME TO_TIMESTAMP
    TO_TIMESTAMP_LTZ TO_TIMESTAMP_NTZ TO_UNIX_TIMESTAMP TO_UTC_TIMESTAMP TRUNC TRY_MAKE_INTERVAL TRY_MAKE_TIMESTAMP
    TRY_MAKE_TIMESTAMP_LTZ TRY_MAKE_TIMESTAMP_NTZ TRY_TO_DATE TRY_TO_TIME TRY_TO_TIMESTAMP UNIX_DATE UNIX_MICROS
    UNIX_MILLIS UNIX_SECONDS UNIX_TIMESTAMP WEEKDAY WEEKOFYEAR YEAR
"""

_NESTED = """
    AGGREGATE ARRAY ARRAYS_OVERLAP ARRAYS_ZIP ARRAY_APPEND ARRAY_COMPACT ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_EXCEPT
    ARRAY_INSERT ARRAY_INTERSECT ARRAY_JOIN ARRAY_MAX ARRAY_MIN ARRAY_POSITION ARRAY_PREPEND ARRAY_REMOVE ARRAY_REPEAT
    ARRAY_SIZE ARRAY_SORT ARRAY_UNION CARDINALITY ELEMENT_AT EXISTS FILTER FLATTEN FORALL GET MAP MAP_CONCAT
    MAP_CONTAINS_KEY MAP_ENTRIES MAP_FILTER MAP_FROM_ARRAYS MAP_FROM_ENTRIES MAP_KEYS MAP_VALUES MAP_ZIP_WITH
    NAMED_STRUCT REDUCE SEQUENCE SIZE SLICE SORT_ARRAY STRUCT STR_TO_MAP TRANSFORM TRANSFORM_KEYS TRANSFORM_VALUES
    TRY_ELEMENT_AT ZIP_WITH
"""

_FORMATS = """
    CRC32 FROM_CSV FROM_JSON FROM_XML GET_JSON_OBJECT HASH IS_VARIANT_NULL JSON_ARRAY_LENGTH JSON_OBJECT_KEYS MD5
    PARSE_JSON SCHEMA_OF_CSV SCHEMA_OF_JSON SCHEMA_OF_VARIANT SCHEMA_OF_XML SHA SHA1 SHA2 TO_CSV TO_JSON
    TO_VARIANT_OBJECT TO_XML TRY_PARSE_JSON TRY_VARIANT_GET VARIANT_GET XPATH XPATH_BOOLEAN XPATH_DOUBLE XPATH_FLOAT
    XPATH_INT XPATH_LONG XPATH_NUMBER XPATH_SHORT XPATH_STRING XXHASH64 BITMAP_BIT_POSITION BITMAP_BUCKET_NUMBER
    BITMAP_COUNT HLL_SKETCH_ESTIMATE HLL_UNION AES_DECRYPT TRY_AES_DECRYPT
"""

_OTHER = """
    ASSERT_TRUE BIGINT BINARY BOOLEAN CAST COALESCE DATE DECIMAL DOUBLE EQUAL_NULL FLOAT IF IFNULL INT ISNOTNULL ISNULL
    NULLIF NULLIFZERO NVL NVL2 SMALLINT TIMESTAMP TINYINT TYPEOF ZEROIFNULL
"""

SCALARS = _load_names(_NUMBERS, _TEXT, _TIME, _NESTED, _FORMATS, _OTHER)


UNSTABLE = frozenset(
    {
        "CURDATE",
        "CURRENT_DATE",
        "CURRENT_TIMESTAMP",
        "CURRENT_TIME",
        "CURRENT_TIMEZONE",
        "CURRENT_USER",
        "CURRENT_CATALOG",
        "CURRENT_DATABASE",
        "CURRENT_SCHEMA",
        "INPUT_FILE_NAME",
        "INPUT_FILE_BLOCK_START",
        "INPUT_FILE_BLOCK_LENGTH",
        "JAVA_METHOD",
        "LOCALTIMESTAMP",
        "MONOTONICALLY_INCREASING_ID",
        "NOW",
        "PYTHON_WORKER_LOGS",
        "RAND",
        "RANDN",
        "RANDOM",
        "RANDSTR",
        "REFLECT",
        "SESSION_USER",
        "SHUFFLE",
        "SPARK_PARTITION_ID",
        "TRY_REFLECT",
        "UNIFORM",
        "USER",
        "UUID",
        "VERSION",
    }
)
"""Functions that may return another value for the same arguments: they depend on time, session or random numbers."""

_UNSTABLE_CLAUSES: dict[type[exp.Expr], str] = {
    exp.TableSample: "TABLESAMPLE",
    exp.QueryTransform: "TRANSFORM … USING",
}
"""Clauses that may return other rows for the same input: a sample of rows, and the output of a script."""

_CLOCK_WORD = re.compile(r"[\s\x00-\x20]*(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
"""Matches a text that begins with a word, such as `today`, that Spark converts to the time of the run."""

_TIME_ALONE = re.compile(r"\s*T?\d{1,2}:\d|\s*T\d", re.IGNORECASE)

_MAKE_MOMENTS = frozenset(
    {"DATE", "TIMESTAMP", "TO_DATE", "TS_OR_DS_TO_DATE", "TO_TIMESTAMP", "TO_TIMESTAMP_LTZ", "TO_TIMESTAMP_NTZ"}
)

_TEXTS = frozenset({"LOWER", "LCASE", "UPPER", "UCASE", "INITCAP", "TRIM", "CONCAT", "SUBSTRING", "SUBSTR"})

_GENERATORS = frozenset(
    {
        "EXPLODE",
        "EXPLODE_OUTER",
        "INLINE",
        "INLINE_OUTER",
        "POSEXPLODE",
        "POSEXPLODE_OUTER",
        "RANGE",
        "STACK",
        "VARIANT_EXPLODE",
        "VARIANT_EXPLODE_OUTER",
    }
)
"""Functions that turn one row into any number of rows and read no table."""

_WRITTEN = "written"


@dataclass(frozen=True)
class Reads:
    """Tables that a query reads, and reasons for which its result may change although the tables do not.

    `unstable` are names, in upper case, of functions that depend on the time, the session or random numbers. `clocks`
    are those of them that return the time of the run, if the query itself calls them, and not a view. `parsed`
    is False if the query could not be parsed: its tables are then not known, so that it must run every time.
    `day_columns` are text columns, in lower case, that Spark may convert to a timestamp on the day of the run, as it
    does with `10:00`.
    """

    tables: tuple[TableName, ...] = ()
    unstable: tuple[str, ...] = ()
    parsed: bool = True
    day_columns: frozenset[str] = frozenset()
    clocks: tuple[str, ...] = ()


@lru_cache(maxsize=64)
def find_reads(sql: str, catalog: str, schema: str) -> Reads:
    """Finds the tables and unstable functions of a Spark query; `catalog` and `schema` complete shorter table names.

    `day_columns` of the result is empty.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
        if tree.find(exp.Command) is not None or not isinstance(tree, exp.Query):
            return Reads(parsed=False)
        tables = [_complete_name(table, catalog, schema) for table in _list_physical_tables(tree)]
    except (SqlglotError, ConfigError):
        return Reads(parsed=False)
    if any(table is None for table in tables):
        return Reads(parsed=False)
    named = tuple(dict.fromkeys(table for table in tables if table is not None))
    unstable = tuple(sorted(_find_unstable_functions(tree)))
    return Reads(named, unstable, clocks=tuple(name for name in unstable if name in CLOCK_FUNCTIONS))


def add_event_position(sql: str, allows_union: bool = False) -> str | None:
    """Adds the position of each change event in its source to the select list of `sql`, as the column `POSITION`.

    Returns None unless each result row is one event. That is so for a select from `changes(…)`, with or without joins,
    that has no grouping, DISTINCT, set operation or limit. With `allows_union`, `sql` may also be a `union all` of such
    selects, each from another source; positions in different sources can't be compared.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
        tokens = sqlglot.tokenize(sql, read="spark")
    except SqlglotError:
        return None
    selects = _list_union_parts(tree)
    places = _find_top_level_froms(tokens)
    sources = [_find_event_source(select) for select in selects]
    if len(places) != len(selects) or not selects or None in sources:
        return None
    tables = {select.args["from_"].this.name for select in selects}
    if len(selects) > 1 and (not allows_union or len(tables) < len(selects)):
        return None
    columns = [exp.column(POSITION, table=source, quoted=True) for source in sources]
    placed = sql
    for at, column in reversed(list(zip(places, columns, strict=True))):
        placed = f"{placed[:at]}, {column.sql(dialect='spark')} {placed[at:]}"
    return placed if _adds_only_columns(placed, tree, columns) else None


def keeps_events_apart(sql: str) -> bool:
    """Whether each result row of a query depends on one change event only, not on other events, tables or the time.

    This holds for a select from `changes(…)` without joins, and for a `union all` of such selects.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except SqlglotError:
        return False
    selects = _list_union_parts(tree)
    is_plain = all(
        _find_event_source(select) is not None
        and not select.args.get("joins")
        and len(list(select.find_all(exp.Table))) == 1
        for select in selects
    )
    return bool(selects) and is_plain and not tree.find(exp.Window) and not _find_unstable_functions(tree)


def _list_union_parts(tree: exp.Expr) -> list[exp.Expr]:
    """Lists the queries that `union all` connects, in the order of the text.

    For a query that is no set operation the list has this query only; for any other set operation it is empty.
    """
    if not isinstance(tree, exp.SetOperation):
        return [tree]
    is_plain = isinstance(tree, exp.Union) and tree.args.get("distinct") is False and not tree.args.get("by_name")
    if not is_plain or any(tree.args.get(part) for part in (*_NOT_PLAIN, "order")):
        return []
    parts = [_list_union_parts(tree.left), _list_union_parts(tree.right)]
    return [*parts[0], *parts[1]] if all(parts) else []


def _adds_only_columns(sql: str, tree: exp.Expr, columns: list[exp.Column]) -> bool:
    """Whether `sql` parses to the query `tree` with one more column at the end of each of its selects.

    `columns` has these columns, in the order of the selects.
    """
    wanted = tree.copy()
    try:
        for select, column in zip(_list_union_parts(wanted), columns, strict=True):
            assert isinstance(select, exp.Select)
            select.select(column, copy=False)
        return sqlglot.parse_one(sql, dialect="spark") == wanted
    except SqlglotError:
        return False


_OTHER_ROWS = (exp.AggFunc, exp.Lateral, exp.QueryTransform)
_OTHER_ROW_CALLS = _GENERATORS | AGGREGATES
"""Calls that make a select return other rows than one for each event; those that sqlglot knows are `_OTHER_ROWS`."""

_NOT_PLAIN = ("with_", "group", "distinct", "limit", "offset", "having", "qualify", "laterals", "pivots")


def _find_event_source(tree: exp.Expr) -> str | None:
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in _NOT_PLAIN):
        return None
    if tree.find(*_OTHER_ROWS) or any(projection.is_star for projection in tree.expressions):
        return None
    if any(_OTHER_ROW_CALLS.intersection(list_function_names(function)) for function in tree.find_all(exp.Func)):
        return None
    source = tree.args.get("from_")
    table = source.this if source else None
    is_changes = isinstance(table, exp.Table) and table.name.startswith("changes(")
    if table is None or table.args.get("pivots"):
        return None
    return table.alias_or_name if is_changes else None


def _find_top_level_froms(tokens: list[Token]) -> list[int]:
    """Positions in the text of the FROM keywords of selects that are not in parentheses, in characters."""
    depth, positions, awaits = 0, list[int](), False
    kinds = [token.token_type for token in tokens]
    for before, token in zip([None, *kinds], tokens, strict=False):
        kind = token.token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth:
            continue
        if kind == TokenType.SELECT:
            awaits = True
        elif kind == TokenType.FROM and awaits and before != TokenType.DISTINCT:
            positions.append(int(token.start))
            awaits = False
    return positions


def _list_physical_tables(tree: exp.Query) -> list[exp.Table]:
    ctes = _fold_cte_names(tree)
    tables: dict[int, exp.Table] = {}
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                tables[id(source)] = source
    reachable = list(tables.values())
    names = {_to_table_key(table) for table in reachable}
    for table in tree.find_all(exp.Table):
        if _to_table_key(table) not in names and not (table.name in ctes and not table.db):
            reachable.append(table)
    return [table for table in reachable if not _is_hint_or_generator(table)]


def _fold_cte_names(tree: exp.Query) -> set[str]:
    """Writes CTEs' names and references to them in lower case, as Spark ignores case; returns the CTEs' names."""
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for cte in tree.find_all(exp.CTE):
        cte.args["alias"].this.set("this", cte.alias.lower())
    for table in tree.find_all(exp.Table):
        if not table.db and table.name.lower() in ctes:
            table.meta[_WRITTEN] = table.name
            table.this.set("this", table.name.lower())
    return ctes


def _is_hint_or_generator(table: exp.Table) -> bool:
    """Whether a Table node is no stored table but a name in a hint, or a function that generates rows."""
    function = table.this
    is_generator = isinstance(function, exp.Func) and _GENERATORS.intersection(list_function_names(function))
    return bool(is_generator) or table.find_ancestor(exp.Hint) is not None


def _to_table_key(table: exp.Table) -> tuple[str, str, str]:
    return (table.catalog, table.db, table.name)


def _complete_name(table: exp.Table, catalog: str, schema: str) -> TableName | None:
    if not isinstance(table.this, exp.Identifier):
        return None
    name = table.meta.get(_WRITTEN, table.name)
    if name.startswith("changes(") and not table.db:
        return None if name.count(".") != 2 else TableName(catalog, schema, name)
    return TableName(table.catalog or catalog, table.db or schema, name)


def _find_unstable_functions(tree: exp.Expr) -> set[str]:
    names = {name for function in tree.find_all(exp.Func) for name in list_function_names(function)}
    clauses = {name for kind, name in _UNSTABLE_CLAUSES.items() if tree.find(kind)}
    words = (get_clock_word(part) for part in tree.walk())
    return names & UNSTABLE | clauses | {f"'{word}'" for word in words if word}


def get_clock_word(part: exp.Expr) -> str | None:
    """Returns the constant text in `part` that Spark may convert to another date or time in each run; None without one.

    Such texts are `now`, `today`, `tomorrow` and `yesterday`, and a time without a date, as in `timestamp '10:00'`,
    which is a time on the day of the run. Spark converts `today` explicitly in `date 'today'`, and implicitly in
    `day < 'today'`. So each such word is returned unless it certainly remains a text. A concatenation of constants that
    is converted to a date or time is returned as well, because its value is not computed here. The result is in upper
    case.
    """
    if isinstance(part, exp.Literal) and part.is_string:
        match = _CLOCK_WORD.match(part.name)
        return match[1].upper() if match and not _is_used_as_text(part) else None
    made = _get_timestamp_source(part)
    if isinstance(made, exp.Literal):
        return made.name.strip().upper() if made.is_string and _TIME_ALONE.match(made.name) else None
    is_made_up = isinstance(made, exp.DPipe) or (isinstance(made, exp.Func) and "CONCAT" in list_function_names(made))
    return made.sql(dialect="spark").upper() if made is not None and is_made_up and not made.find(exp.Column) else None


def _get_timestamp_source(part: exp.Expr) -> exp.Expr | None:
    """Returns the expression that `part` converts to a date or a time; None if `part` is no such conversion."""
    if isinstance(part, exp.Cast):
        return part.this.unnest() if part.is_type(*exp.DataType.TEMPORAL_TYPES) else None
    if not isinstance(part, exp.Func) or _MAKE_MOMENTS.isdisjoint(list_function_names(part)):
        return None
    arguments = part.expressions if isinstance(part, exp.Anonymous) else [part.this]
    return arguments[0].unnest() if arguments else None


def _is_used_as_text(literal: exp.Expr) -> bool:
    """Whether a string literal certainly remains a text: it is selected, concatenated, or compared with a text."""
    parent = literal.parent
    match parent:
        case None | exp.Select() | exp.DPipe() | exp.Like() | exp.ILike() | exp.RegexpLike():
            return True
        case exp.Alias() | exp.Paren():
            return _is_used_as_text(parent)
        case exp.If() | exp.Case():
            case = parent if isinstance(parent, exp.Case) else parent.parent
            return isinstance(case, exp.Case) and literal.arg_key in ("true", "default") and _yields_texts(case)
        case exp.EQ() | exp.NEQ() | exp.NullSafeEQ():
            return _has_text_type(parent.left) or _has_text_type(parent.right)
        case exp.In():
            return _has_text_type(parent.this)
        case _:
            return False


def _yields_texts(case: exp.Case) -> bool:
    results = [*(part.args["true"] for part in case.args["ifs"]), case.args.get("default")]
    return all(part is None or isinstance(part, exp.Null | exp.Literal) for part in results) and _is_used_as_text(case)


def _has_text_type(value: exp.Expr) -> bool:
    """Whether an expression certainly has a text type: a cast to one, or a text function or `||` over columns."""
    bare = value.unnest()
    if isinstance(bare, exp.Cast):
        return bare.is_type(*exp.DataType.TEXT_TYPES)
    is_call = isinstance(bare, exp.Func) and not _TEXTS.isdisjoint(list_function_names(bare))
    return (is_call or isinstance(bare, exp.DPipe)) and bare.find(exp.Column) is not None


def list_function_names(function: exp.Func) -> list[str]:
    """Lists the SQL names of the called function, in upper case: its name, or all aliases that sqlglot has for it."""
    if isinstance(function, exp.Anonymous):
        return [function.name.upper()]
    return [name.upper() for name in type(function).sql_names()]
