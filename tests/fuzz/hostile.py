"""The hostile corpus: texts that break programs which paste them into another language, and its combinations.

`FRAGMENTS` are its parts, by the kind of harm that they do; `generate_hostile_texts` combines them to thousands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

KINDS: Mapping[str, tuple[str, ...]] = {
    "quotes": ("'", '"', "`", "''", '""', "``", "\\'", '\\"', "\\`", "'\"`", "‘", "“", "´", "ʼ", "＇"),
    "backslashes": ("\\", "\\\\", "\\n", "\\u0027", "\\x27", "\\0", "C:\\temp", "\\N", "\\%", "\\_"),
    "controls": (
        "\x00",
        "\x01",
        "\x07",
        "\x08",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\x1b[31m",
        "\x1b]0;x\x07",
        "\x7f",
        "\x85",
        "\x9b",
    ),
    "separators": ("\u2028", "\u2029", "\u000b", "\u000c", "\u00a0", "\u3000", "\u1680", "\ufeff"),
    "direction": ("\u202e", "\u202d", "\u2066", "\u2069", "\u200f", "\u061c", "مرحبا", "שלום", "\u202egnp.exe"),
    "zero width": ("\u200b", "\u200c", "\u200d", "\u2060", "\u00ad", "\u034f", "\u180e", "a\u200bb"),
    "emoji": ("😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "\U0010ffff", "\U000e0001", "𝒳", "𠜎"),
    "combining": ("é", "e\u0301", "ạ̈", "Z͑ͫ̓", "ﬁ", "ß", "İ", "ı", "ſ", "K", "Å", "Ω", "가", "ᄀ\u1161"),
    "surrogates": ("\ud800", "\udc00", "\udfff", "a\ud800b", "\udc00\ud800"),
    "nothing": (
        "",
        " ",
        "  ",
        ".",
        "..",
        "...",
        "-",
        "--",
        "_",
        "~",
        "null",
        "NULL",
        "None",
        "nil",
        "undefined",
        "NaN",
    ),
    "SQL": (
        "'; drop table orders; --",
        "' or '1'='1",
        "` as x, (select 1) as `",
        '"; select 1; --',
        "/*",
        "*/",
        "/*! x */",
        "--",
        "#",
        ";",
        "1; select pg_sleep(9)",
        ") union select 1 --",
        "%' or 1=1 --",
        "$$",
        "$1",
        "?",
        ":name",
        "@x",
        "{d '2020-01-01'}",
        "x'00'",
        "e'\\n'",
        "u&'\\0061'",
        "0x41",
        "1e999",
        "-0",
    ),
    "Jinja": (
        "{{ 7*7 }}",
        "{% raw %}",
        "{#",
        "#}",
        "{{ env_var('HOME') }}",
        "${7*7}",
        "#{7*7}",
        "%(x)s",
        "%s",
        "{0}",
        "{x!r}",
    ),
    "HTML": (
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '"><svg onload=alert(1)>',
        "&lt;b&gt;",
        "&#39;",
        "&amp;amp;",
        "]]>",
        "<!--",
        "-->",
        "javascript:alert(1)",
        "<a href='//x'>",
        "</textarea>",
        "</title>",
    ),
    "JSON": ('{"a":1}', '"}', "[", "]", "{", "}", "\\u0000", '","x":"', "1e400", "-1", "true", '{"__proto__":1}'),
    "paths": (
        "/",
        "//",
        "../",
        "../../etc/passwd",
        "..\\..\\x",
        "%2e%2e%2f",
        "%00",
        "%",
        "%zz",
        "a/b",
        "file:///x",
        "~",
        "CON",
        "nul.txt",
        "a.",
        " a",
        "a ",
    ),
    "URL": (
        "?",
        "&",
        "=",
        "#",
        "+",
        "%20",
        "a=b&c=d",
        "http://[",
        "http://a:b@c",
        "//x",
        "data:,x",
        "a:b",
        "@",
        ";x=1",
    ),
    "log": (
        "\n2026-01-01 ERROR forged",
        "\r\nSet-Cookie: a=b",
        "\n\n",
        "\x1b[2K\rok",
        "${jndi:ldap://x/a}",
        "\tx",
        "{}",
        "%n",
    ),
    "reserved": (
        "select",
        "table",
        "from",
        "user",
        "order",
        "group",
        "default",
        "current_date",
        "true",
        "file",
        "_file",
        "_pos",
        "_spec_id",
        "_partition",
    ),
    "own names": (
        "__changes",
        "__base",
        "__totals",
        "__forget",
        "__snapshot",
        "_current",
        "_cdf",
        "x__changes",
        "__changes__changes",
        "_action",
        "_seq",
        "_ts",
        "_before",
        "branch_main",
        "tag_x",
        "snapshot_id_1",
        "changes",
        "history",
        "files",
        "refs",
        "main",
        "arctic_x",
        "changes(a.b.c)",
    ),
    "numbers": (
        "0",
        "-1",
        "00",
        "1.5",
        "1e3",
        "9223372036854775808",
        "٣",
        "²",
        "Ⅷ",
        "1_000",
        "0b1",
        "infinity",
        "-inf",
    ),
    "globs": ("*", "%", "_", "[a-z]", "?", "**", "{a,b}", "(a|b)", ".*", "^$", "(?i)", "(a+)+$", "\\d"),
    "mail and csv": ("=1+1", "@SUM(A1)", "+1", "-1+1|cmd", "a,b", "a;b", "a\tb", 'a""b'),
}

LONG = ("a" * 255, "é" * 128, "a" * 256, "a" * 1000, "ab`'\"" * 2000, "\\" * 10_000, "😀" * 2500)
"""Texts that are too long for a column, a file's name or a header."""

FRAGMENTS = tuple(fragment for fragments in KINDS.values() for fragment in fragments)


def generate_hostile_texts(count: int, seed: int = 0) -> Iterator[str]:
    """Yields `count` different texts: the fragments, the long ones, then combinations of fragments and words."""
    chance = Random(seed)
    seen = dict.fromkeys([*FRAGMENTS, *LONG])
    words = ("", "a", "orders", "Größe", "x_1", "id")
    while len(seen) < count:
        parts = [chance.choice((chance.choice(FRAGMENTS), chance.choice(words))) for _ in range(chance.randint(2, 4))]
        seen.setdefault("".join(parts))
    yield from list(seen)[:count]


def is_encodable(text: str) -> bool:
    """Whether a text can be stored at all: one with half of a surrogate pair has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
