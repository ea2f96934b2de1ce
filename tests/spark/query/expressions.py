"""Expressions over the columns of the table of edge values: each translated construct, and random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random


def split_texts(text: str) -> tuple[str, ...]:
    """Splits texts that stand between semicolons."""
    return tuple(part for line in text.splitlines() for written in line.split(";") if (part := written.strip()))


EXPRESSIONS = split_texts(
    """
    i % 5 + j; j * 3 - 1; cast(i as bigint) + 1; cast(i as bigint) * j; -j; - cast(i as bigint); +j; i + 1; i * 2;
    l + 1; -l; abs(i); l - j; -i; i / 2; i / j; l / 7; i div 7; i div j; l div 3; i % 7; i % j; mod(l, 7); j / 3;
    x / 2; x / x; d + d; d - 1; d * d; d + i; d * 2; d + 0.5; d * 1.25; -d; abs(d); e + d; e * d; d + l; round(d);
    round(d, 1); round(e, 2); cast(d as decimal(8,1)); cast(d as decimal(12,4)); cast(e as double);
    cast(d as double); cast(i as double); cast(l as double); cast(i as decimal(12,2)); cast(d as string);
    cast(e as string); cast(i as string); cast(l as string); cast(b as string); cast(day as string);
    cast(l as int); cast(j as bigint); cast(f as double); cast(0.0000001 as string); cast(i as decimal(3,1));
    x + 1; x * 2.0D; x - x; x + x; -x; abs(x); f + f; x + f; x * 3; x + d; 1e3 + x; 1.5e-3 * x; i = j; i <> j;
    i < j; i >= l; i <=> j; d = i; d < e; x = x; x > 0; x < x; f = x; l = x; d = x; s = t; s < t; s >= 'a';
    s <=> t; s <> ''; b = c; b < c; b <=> null; day = '2024-02-29'; day < at; day >= date '2024-01-01';
    at > '2000-01-01'; at = timestamp '2024-02-29 12:34:56.123456'; local < '2024-01-01';
    at <= '2024-02-29 12:34:56'; i = 1.0; i in (1, 7, null); s in ('a', 'ß'); i not in (1, 2);
    day in ('2024-02-29'); i between -1 and 7; s between 'a' and 'b'; i not between j and 5; x between 0 and 2;
    i is null; s is not null; b and c; b or c; not b; b is true; b is not false; b and i > 0 or c;
    i is distinct from j; s not like '%a'; s like 'a%'; s like 'a_b'; s like '%'; s not like '_'; s like '😀%';
    s like ''; s like 'a.b'; case when i > 0 then 'p' when i < 0 then 'n' end;
    case i when 1 then 1.5 when 2 then 2 else 0.25 end; if(b, i, j); case when b then i else l end;
    case when b then day when c then null end; coalesce(i, j, 0); coalesce(s, t, '-'); nvl(i, 0); ifnull(s, '?');
    nullif(i, j); nullif(s, 'a'); isnull(x); isnotnull(x); coalesce(d, i); coalesce(x, i); greatest(i, j);
    least(i, j, 0); greatest(s, t); least(d, i); greatest(day, date '2000-01-01'); length(s); char_length(s);
    concat(s, t); s || '-' || t; concat(s); trim(s); ltrim(s); rtrim(s); substr(s, 1, 2); substring(s, 2);
    substring(s from 1 for 1); replace(s, 'a', 'bb'); instr(s, 'b'); substr(s, 5, 0); startswith(s, t);
    endswith(s, t); contains(s, t); startswith(s, ''); trim(both from s); trim(leading from s); year(day);
    month(day); day(day); dayofmonth(day); quarter(day); year(at); hour(at); minute(at); second(at);
    extract(year from day); extract(month from at); last_day(day); year(local); hour(local); day(at);
    date_add(date '2024-02-28', j); date_sub(date '2024-02-28', j); date '2024-01-01' + j; date '2024-01-01' - 1;
    datediff(day, date '2000-01-01'); trunc(day, 'MM'); trunc(day, 'year'); trunc(day, 'week');
    trunc(day, 'quarter'); date_trunc('month', at); date_trunc('day', at); date_trunc('HOUR', at);
    date_trunc('week', at); date_trunc('year', day); date_trunc('minute', local); date_trunc('second', at);
    cast(day as timestamp); cast(at as date); cast(local as date); cast(day as timestamp_ntz);
    cast(at as timestamp_ntz); cast(local as timestamp); cast('2024-01-31' as date); date '0001-01-01'; upper(t);
    lower(t); upper('abc'); null; cast(null as int); 'it''s'; true; 12345678901; 1.50; 0.1D; 10L; (i + 1) * 2;
    -(j + 1); ((s)); i = j or s = t and b; 12345678901234567890; not (i = j)
    """
)
"""Each of them has to be translated; Spark fails for some rows of some of them, and so has DuckDB."""

AGGREGATES = split_texts(
    """
    count(*); count(i); count(1); count(distinct s); count(distinct i); count_if(b); count_if(i > 0); sum(i);
    sum(l); sum(d); sum(e); sum(x) > 0; avg(i); avg(cast(d as double)) > 0; mean(j); min(i); max(i); min(s);
    max(s); min(day); max(at); min(d); max(x); min(x); min(b); max(local); bool_and(b); bool_or(b); every(b);
    some(c); sum(i) + 1; sum(d) * 2; max(i) - min(i); coalesce(sum(i), 0); sum(i) filter (where b);
    count(*) filter (where c); max(s) filter (where false); sum(case when b then 1 else 0 end)
    """
)

_COLUMNS: Mapping[str, Sequence[str]] = {
    "int": ("j", "i % 100", "length(s)", "year(day)", "0", "1", "-3"),
    "bigint": ("cast(j as bigint)", "l % 1000", "7L"),
    "decimal": ("d", "e", "0.5", "1.25"),
    "double": ("x", "cast(j as double)", "1.5D"),
    "string": ("s", "t", "''", "'a'", "'ß'"),
    "date": ("day", "date '2024-02-29'"),
    "boolean": ("b", "c", "true"),
}
_FORMS: Mapping[str, Sequence[str]] = {
    "int": split_texts(
        """
        {int} + {int}; {int} * 2; abs({int}); {int} % 7; coalesce({int}, {int}); if({boolean}, {int}, {int});
        length({string}); datediff({date}, {date}); month({date}); nullif({int}, {int}); instr({string}, 'a')
        """
    ),
    "bigint": split_texts(
        """
        {bigint} + {int}; {int} div 3; {bigint} - {bigint}; greatest({bigint}, {int}); cast({int} as bigint)
        """
    ),
    "decimal": split_texts(
        """
        {decimal} + {int}; {decimal} - {decimal}; {decimal} * {int}; round({decimal}, 1); -{decimal};
        case when {boolean} then {decimal} else {int} end; least({decimal}, {decimal})
        """
    ),
    "double": split_texts(
        """
        {double} + {double}; {double} * {int}; {int} / 4; -{double}; coalesce({double}, {int}); {decimal} + {double};
        cast({decimal} as double); {bigint} / 3
        """
    ),
    "string": split_texts(
        """
        concat({string}, {string}); {string} || {string}; substr({string}, 2, 3); trim({string});
        replace({string}, 'a', {string}); case when {boolean} then {string} else {string} end; cast({int} as string);
        coalesce({string}, {string}); cast({decimal} as string); cast({date} as string)
        """
    ),
    "date": split_texts(
        """
        trunc({date}, 'MM'); last_day(trunc({date}, 'year')); coalesce({date}, {date}); if({boolean}, {date}, {date})
        """
    ),
    "boolean": split_texts(
        """
        {int} = {int}; {int} < {bigint}; {decimal} >= {int}; {double} < {double}; {string} = {string};
        {string} < {string}; {boolean} and {boolean}; {boolean} or {boolean}; not {boolean}; {int} in ({int}, 1, null);
        {string} like 'a%'; {date} <= {date}; {int} is null; {int} <=> {int}; {double} = {int};
        {int} between {int} and {int}; startswith({string}, {string}); {date} > '2000-01-01'
        """
    ),
}


@dataclass
class RandomExpressions:
    """Expressions that Spark takes, made of forms whose gaps have types."""

    random: Random
    count: int = 0

    def make_expression(self, depth: int) -> str:
        self.count += 1
        return self._make(self.random.choice(tuple(_FORMS)), depth)

    def _make(self, of_type: str, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.15:
            return f"({self.random.choice(_COLUMNS[of_type])})"
        form = self.random.choice(_FORMS[of_type])
        for name in _FORMS:
            while f"{{{name}}}" in form:
                form = form.replace(f"{{{name}}}", self._make(name, depth - 1), 1)
        return f"({form})"
