"""Random queries that combine clauses: hints, nested WITH, lateral views, named windows, FILTER, HAVING by aliases.

Each part is one that Spark takes beside any other, so that nearly all combinations are queries.
"""

from __future__ import annotations

import random

_ROWS = "(select yr, q, item, amount, named_struct('a', q, 'b', item) as st, array(q, amount) as xs from sales)"

_SOURCES = (
    _ROWS,
    "(select * from {rows} s sort by q)",
    "(select * from {rows} s distribute by yr)",
    "(select * from {rows} s cluster by yr)",
    "(with a as (select * from {rows} s), b as (with c as (select * from a) select * from c) select * from b)",
    "(with a as (with b as (select * from {rows} s) select * from b where q > 0) select * from a)",
    "(select * from {rows} s union all select * from {rows} t)",
    "(from {rows} s select *)",
    "(select yr, q, item, amount, st, xs from values (2020, 1, 'ink', 5, named_struct('a', 1, 'b', 'x'), array(1)) "
    "as v(yr, q, item, amount, st, xs))",
)
_HINTS = ("", "", "/*+ broadcast(s) */ ", "/*+ repartition(2) */ ", "/*+ merge(s), coalesce(1) */ ")
_AROUND = (
    "",
    "",
    " left join u on u.id = s.q",
    " left semi join u on u.id = s.q",
    " lateral view outer explode(s.xs) e as x",
    " lateral view posexplode(s.xs) e as p, x",
    " cross join (select max(w) as w from u) u",
)
_FILTERS = (
    "",
    "",
    " where s.amount is not null",
    " where s.item like any ('i%', 'p%') or s.q between 1 and 2",
    " where s.q in (select id from u where k = 'a')",
    " where exists (select 1 from u i where i.id = s.q and i.w > 5)",
    " where (s.yr, s.q) not in ((2020, 2))",
)
_VALUES = (
    "s.yr as a, s.item as b, s.st.a as c",
    "s.st as q, s.q as n, s.amount as m",
    "distinct s.item as q, s.q as item",
    "s.q, sum(s.amount) over w as total, s.yr",
    "s.q, row_number() over (partition by s.yr order by s.q, s.item, s.amount) as n, count(*) over (w) as c",
    "s.item, first_value(s.amount) ignore nulls over (partition by s.yr order by s.q, s.amount nulls last) as f",
    "mask(s.item, lowerChar => 'q') as masked, s.q + 1 as next, next * 2 as twice",
    "s.* except (xs, st)",
)
_WINDOW = " window w as (partition by s.yr order by s.q rows between 1 preceding and current row)"
_GROUPED = (
    "s.yr, sum(s.amount) filter (where s.q > 1) as q, count(*) as n",
    "s.yr, listagg(s.item, ',') within group (order by s.item) as items, max(s.st.a) as st",
    "s.yr, percentile_cont(0.5) within group (order by s.amount desc) as p, count(distinct s.item) as n",
    "s.yr, named_struct('a', sum(s.q)) as st, max(s.yr) as n",
    "s.yr, max(s.amount) as amount, min(s.q) as n",
)
_GROUPS = (" group by s.yr", " group by 1", " group by rollup (s.yr)", " group by s.yr, grouping sets ((s.item), ())")
_HAVING = ("", "", " having count(*) > 1", " having n >= 1", " having st.a > 0", " having amount > 1", " having q > 1")
_LAST = ("", "", "", " order by 1", " sort by 1", " distribute by yr", " limit all")


def draw_query(seed: random.Random) -> str:
    """Draws a query over the tables `sales` and `u` of the cases for queries."""
    source = seed.choice(_SOURCES).format(rows=_ROWS)
    rows = f"from {source} s{seed.choice(_AROUND)}{seed.choice(_FILTERS)}"
    if seed.random() < 0.4:
        return f"select {seed.choice(_GROUPED)} {rows}{seed.choice(_GROUPS)}{seed.choice(_HAVING)}"
    values = seed.choice(_VALUES)
    window = _WINDOW if "over w" in values or "over (w)" in values else ""
    hint = seed.choice(_HINTS)
    return f"select {hint}{values} {rows}{window}{seed.choice(_LAST)}"
