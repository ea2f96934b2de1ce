"""Makes Debezium's connector for MySQL read dates, years and labels exactly, and the same in snapshot and stream.

Without these changes a zero date (`0000-00-00`, or one without a month or day) becomes null, the column's default or
1970-01-01; the year 0 becomes 1900 or 2000; a snapshot moves times that the time zone of this process skips; and labels
of enums keep some of the escapes of SQL.
"""

from __future__ import annotations

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
