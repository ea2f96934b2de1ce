"""Makes Debezium's connector for MySQL read statements of MariaDB that define tables, and stop at no table left out.

Debezium's grammar is that of MySQL. MariaDB also accepts a default without parentheses around its expression, and
prints it so: the parentheses are added before the statement is parsed. If it can't be parsed then, each expression is
replaced by `(rand())`, since Debezium needs no defaults (see `column_defaults`), and a default that is not constant is
unknown anyway. CREATE OR REPLACE TABLE is read as a CREATE TABLE after the table was dropped.
"""

from __future__ import annotations

import json

from arctic_runtime.ingest.transports.debezium.java_methods import InsertedCode

_NAME = r"(?:`(?:``|[^`])+`|[\w$]+)"
_QUALIFIED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_COMMENT = r"--\s[^\n]*|#[^\n]*|/\*(?!M?!).*?\*/"
_QUOTED = rf"""{_COMMENT}|'(?:''|\\.|[^'\\])*+'|"(?:""|\\.|[^"\\])*+"|`(?:``|[^`])*+`"""
_GAP = rf"(?:\s|{_COMMENT})*+"

_NOT_REPLACED = (
    "null|true|false|on|value|charset|char|character|collate|encryption"
    "|comment|not|unique|primary|key|check|constraint|references|first|after|storage|column_format|engine"
)
"""Words after DEFAULT that are literals of Debezium's grammar, or no part of a default."""

_EXPRESSION = (
    r"(?=(\(|\{|case\b))"
    rf"|(?:next|previous)\s+value\s+for\s+{_QUALIFIED}"
    rf"|@{{0,2}}(?!\d|(?:{_NOT_REPLACED})\b|\w+\s*(?:[xb]?['\"]|0[xb])){_QUALIFIED}(?={_GAP}(\())?"
)
"""Pattern of an expression, up to its first parenthesis, brace or CASE, which is group 3 or 4."""

_DEFAULTS = rf"(?:{_QUOTED})|\b(default)\b{_GAP}()(?:{_EXPRESSION})"
"""Pattern of a default that is an expression, or of a quoted text, in which there is none.

Group 2 is empty, where the expression begins.
"""
_NESTING = rf"(?:{_QUOTED})|([({{]|\bcase\b)|([)}}]|\bend\b)"

_TABLE = (
    rf"{_GAP}(?:set\s+statement\b.+?\bfor\s+)?(?:create(\s+or\s+replace)?|alter(?:\s+online|\s+ignore)*+)\s+table\s+"
    rf"(?:if\s+(?:not\s+)?exists\s+)?({_NAME})(?:\s*\.\s*({_NAME}))?"
)
"""Pattern of the begin of a statement that defines a table.

Its groups are OR REPLACE, and the names of the database and the table, or if no database is named, that of the table.
"""

UNREADABLE = "The definition of {table} can't be parsed"
"""Message of the exception for a statement about a table that is read; the table is named with its database."""


def _to_java(pattern: str) -> str:
    """Converts a regular expression to Java code of a pattern that ignores case, and whose `.` matches all characters.

    A JSON string of ASCII characters is a literal of Java too.
    """
    return f"java.util.regex.Pattern.compile({json.dumps(pattern)}, 34)"


_BEFORE_NAME, _AFTER_NAME = UNREADABLE.split("{table}")

_PARSE = f"""{{
    String ddl = io.debezium.connector.mysql.antlr.DdlNormalizer.normalize($1, isAnsiQuotesMode());
    java.util.regex.Matcher head = {_to_java(_TABLE)}.matcher(ddl);
    io.debezium.relational.TableId table = null;
    if (head.lookingAt()) {{
        String first = head.group(2).replaceAll("^`|`$", "").replace("``", "`");
        String second = head.group(3) == null ? null : head.group(3).replaceAll("^`|`$", "").replace("``", "`");
        String database = second == null ? currentSchema() : first;
        table = new io.debezium.relational.TableId(database, null, second == null ? first : second);
        if (head.group(1) != null) {{
            $2.removeTable(table);
            ddl = ddl.substring(0, head.start(1)) + ddl.substring(head.end(1));
        }}
    }}
    java.util.regex.Matcher next = {_to_java(_DEFAULTS)}.matcher(ddl);
    java.util.regex.Matcher token = {_to_java(_NESTING)}.matcher(ddl);
    StringBuilder nested = new StringBuilder();
    StringBuilder replaced = new StringBuilder();
    int copied = 0;
    int place = 0;
    while (next.find(place)) {{
        place = next.end();
        if (next.group(1) == null) continue;
        int begin = next.start(2);
        int inner = Math.max(next.start(3), next.start(4));
        int depth = inner < 0 ? 0 : 1;
        if (depth == 1) place = inner + (ddl.charAt(inner) == '(' || ddl.charAt(inner) == '{{' ? 1 : 4);
        while (depth > 0 && token.find(place)) {{
            place = token.end();
            if (token.group(1) != null) depth++;
            if (token.group(2) != null) depth--;
        }}
        String text = ddl.substring(begin, place);
        nested.append(ddl.substring(copied, begin)).append(text.startsWith("(") ? text : "(" + text + ")");
        replaced.append(ddl.substring(copied, begin)).append("(rand())");
        copied = place;
    }}
    try {{
        return super.parse(nested.append(ddl.substring(copied)).toString(), $2);
    }} catch (RuntimeException error) {{
        getAndResetDdlChanges();
    }}
    try {{
        return super.parse(replaced.append(ddl.substring(copied)).toString(), $2);
    }} catch (RuntimeException error) {{
        if (table == null) throw error;
        getAndResetDdlChanges();
        if (!getTableFilter().isIncluded(table)) return new io.debezium.relational.ddl.DdlChanges();
        String name = table.catalog() + "." + table.table();
        throw new io.debezium.DebeziumException("{_BEFORE_NAME}" + name + "{_AFTER_NAME}", error);
    }}
}}"""

READABLE_STATEMENTS = (
    InsertedCode(
        "io.debezium.connector.mysql.antlr.MySqlAntlrDdlParser",
        "io.debezium.connector.mysql.antlr.DdlNormalizer",
        "parse",
        _PARSE,
        "body",
    ),
)
