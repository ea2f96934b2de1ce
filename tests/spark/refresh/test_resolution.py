"""Names of a query stand for the same in its tree as in Spark: both give the same rows, types and names."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.render import name_input, render_sql
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.statement import quote_name
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES: dict[str, tuple[dict[str, str], str]] = {
    "t": (
        {
            "id": "bigint", "a": "int", "b": "int", "s": "struct<a:int,x:int>", "g": "string", "arr": "array<int>",
            "f": "boolean",
        },
        "(1, 1, 10, struct(5, 6), 'p', array(1, 2), true), (2, 1, 20, struct(7, 8), 'q', array(), false), "
        "(3, 2, 30, struct(5, 8), 'p', null, null), (4, null, null, null, '0', array(0), true), "
        "(5, 0, 0, struct(0, 0), 'true', array(3), false), (6, 2, 10, struct(7, 6), null, array(4), null)",
    ),
    "u": (
        {"id": "bigint", "a": "int", "all": "int", "v": "int"},
        "(1, 1, 0, 3), (2, 3, 1, 4), (7, 2, 1, 5), (8, null, 0, null)",
    ),
    "w": (
        {"a": "int", "c": "struct<a:int,b:int>", "all": "int", "d": "date"},
        "(1, struct(1, 2), 1, date '2020-01-01'), (2, struct(1, 3), 1, date '2020-01-02'), "
        "(0, struct(0, 3), 2, date '2020-01-02'), (1, null, 2, null)",
    ),
}  # fmt: skip

QUERIES = (
    # GROUP BY ALL, and columns of that name
    "select `all`, count(*) as n from u group by all",
    "select count(1) from values (1),(2),(3) t(all) group by all",
    "select a as `all`, count(*) as n from t group by all",
    "select count(*) as n, a as `all` from t group by all",
    "select max(a) as m from w group by all, a",
    "select max(a) as m from t group by all",
    "select a, a + sum(b) as n from t group by all",
    "select a, 1 as one, count(*) as n from t group by all",
    "select t.g, count(*) as n from t where exists (select max(id) from u where u.a = t.a group by all) group by all",
    "select a, b from t group by all",
    "select struct(a) as st, count(*) as n from t group by all",
    "select id, (a, b) as x, struct((a), (s.x), b + 1) as y, ((id, a), (g)) as z, ((a, b)).b as w from t",
    "select id, transform(arr, e -> (e, id)) as x, (a as p, b) as y from t where (a, (b)) = (1, 10) or (a, b) in ((2, 30))",
    # HAVING
    "select a, count(*) as n from t group by a having count(*)",
    "select a, count(*) as n from t group by a having 'true'",
    "select a, count(*) as n from t group by a having count(*) - 1",
    "select a, count(*) as n from t group by a having null",
    "select named_struct('a',9) as c, count(*) as n from w group by w.c.a having w.c.a > 0",
    "select c.a as a, count(*) as n from w group by c.a, w.a having a > 0",
    "select a as b, count(*) as n from t group by a having b > 0",
    "select a as b, count(*) as n from t group by a, b having b > 0",
    "select a as b, sum(b) as a from t group by t.a having t.a > 1",
    "select a + 1 as x, count(*) as n from t group by a + 1 having a + 1 > 1",
    "select a + 1 as a, count(*) as n from t group by t.a + 1 having a + 1 > 2",
    "select a, count(*) as n from t group by a having exists (select 1 from u where u.a = t.a)",
    "select a as x, count(*) as n from t group by a having count(*) > (select min(v) from u) - 2",
    "select t.a, count(*) as n from t join u on t.id = u.id group by t.a having t.a = 1",
    "select max(s.a) as m, s.x as x from t group by s.x having s.x > 5",
    "select sum(b) + 1 as b, count(*) as n from t group by a having 1 + sum(b) > 21",
    "select upper(g) as g, count(*) as n from t group by upper(t.g) having g in ('P', 'Q') and n > 1",
    "select a, count(*) as n from t group by a having (((count(*) > 1)))",
    "select a, count(*) as n from t group by a having case when a = 1 then 1 else 0 end",
    "select a, count(*) as n from t group by a having count(*) filter (where f)",
    "select sum(a) as n from u group by all having all > 0",
    "select a, sum(b) as b, count(*) as id from t group by a having b > 20 and -1 < id",
    "select a, sum(d) as d from (select a, cast(b as decimal(10,2)) as d from t) group by a having d >= 40",
    # GROUP BY
    "select a as x, a as x, count(*) as n from t group by x",
    "select 'x' as k, count(*) as n from t group by k",
    "select a, 5 as five, count(*) as n from t group by 1, 2",
    "select named_struct('a', a) as q, count(*) as n from t group by q",
    "select s as q, q.a as z, count(*) as n from t group by q",
    "select upper(g) as g, count(*) as n from t group by upper(g)",
    "select case when a = 1 then 'x' else g end as g, count(*) as n from t group by 1",
    "select id, count(*) as n from t right join u using (id) group by id",
    "select max(`all`) as m from u group by all",
    "select a as k, `all` as a, count(*) as n from u group by all, a",
    # aliases to the left
    "select a + 1 as x, x * 2 as y from t",
    "select s as q, q.a as y from t",
    "select named_struct('a', a + 1) as q, q.a as y from t",
    "select a as b from t where b > 10",
    "select t.*, v as x, x + 1 as y from t join u on t.id = u.id",
    "select (s).a from t",
    "select (a + 1) as x, x * 2 as y, (x) * 3 as z from t",
    "select s as q, q.a as y, q.x + 1 as z from t",
    "select * except (t.a) from t",
    # windows
    "select id, count(*) over (order by d range between interval 1 day 2 hours preceding and current row) as n from (select a as id, timestamp(d) as d from w)",
    "select a, sum(count(*)) over () as n from t group by a",
    # fields and qualifiers
    "select s.a from t s",
    "select w.a from w join (select c as w from w) x on true where w.a = 1",
    # merged columns
    "select id, t.a, u.a from t join u using (id)",
    "select * from (select id, a from t) t natural join (select id, v from u) u",
    "select x.id from t x cross join u",
    # scopes
    "select id from t where exists (select 1 from u where id = t.id)",
    "with u as (select 1 as id) select t.id from t join u on t.id = u.id",
    # lateral views
    "select id, e from t lateral view explode(arr) x as e",
    "select id, stack(2, a, b) as (z) from t",
    # stars and words
    "select t.*, u.v from t join u on t.id = u.id",
    "select id as all from t",
    "select date_add(d, day) as dd from (select d, 1 as day from w)",
)  # fmt: skip

MORE = (
    # GROUP BY ALL, and columns of that name
    "select a as x, count(*) as n from t group by all",
    "select max(a) as m from w group by all",
    "select a + 1 as x, b, sum(id) as n from t group by all",
    "select s.a, count(*) as n from t group by all",
    "select * from t group by all",
    "select `all`, count(*) as n from u group by `all`",
    "select max(a) as m from w group by a, all",
    # HAVING
    "select a, count(*) as n from t group by a having max(f)",
    "select named_struct('a',1) as c, count(*) as n from t group by c having c.a > 0",
    "select named_struct('a',9) as c, count(*) as n from w group by w.c having w.c.a > 5",
    "select c, count(*) as n from w group by c having c.a > 0",
    "select a as b, count(*) as n from t group by a, t.b having b > 0",
    "select sum(b) as id from t group by a having max(id) > 2",
    "select a + 1 as a, count(*) as n from t group by a having a + 1 > 2",
    "select a as x, count(*) as n from t group by a having count(*) in (select v - 1 from u)",
    "select a + 1 as a, count(*) as n from t group by t.a + 1 having a * 2 > 4",
    "select a, f, count(*) as n from t group by a, f having f",
    "select a, count(*) as n from t group by a having exists (select 1 from u where u.a = 77)",
    "select a as n, n as m, count(*) as c from (select a, g as n from t) group by all having m > 'a'",
    "select a, count(*) as n from t group by a having sum(b)",
    "select a, count(*) as n from t group by a having a",
    "select a, count(*) as n from t group by a having n",
    "select any_value(a) as x from t having any_value(a)",
    "select sum(a) as n from t having sum(a)",
    "select c.a, count(*) as n from w group by c.a having c.a > 0",
    "select c.a as x, count(*) as n from w group by x having x > 0",
    "select c.a as x, count(*) as n from w group by x having c.a > 0",
    "select s.a as s, count(*) as n from t group by t.s having t.s.x > 5",
    "select a as b, sum(b) as n from t group by a having sum(b) > 20",
    "select a as b, sum(b) as n from t group by a having b > 1",
    "select a as b, sum(b) as a from t group by a having a > 1",
    "select sum(b) as a, a as x from t group by a having a > 1",
    "select sum(b) as a from t group by a having a > 10",
    "select sum(b) as a from t group by t.a having a > 10",
    "select sum(b) as id from t group by a having id > 10",
    "select a as x, sum(b) as n from t group by a having x > 1 and n > 20",
    "select a, sum(b) as n from t group by a having n > 20 and count(*) > 0",
    "select a, sum(b) as sum from t group by a having sum > 20",
    "select a as x from t group by a having x > 1",
    "select a + 1 as a, count(*) as n from t group by a + 1 having a + 1 > 1",
    "select a + 1 as a, count(*) as n from t group by t.a + 1 having a > 1",
    "select a + 1 as a, count(*) as n from t group by a having a > 1",
    "select a + 1 as x, count(*) as n from t group by a having x > 2",
    "select a + 1 as x, count(*) as n from t group by x having x > 2",
    "select a + 1 as x, x + 1 as y, count(*) as n from t group by 1 having y > 3",
    "select a + 1 as x, x + 1 as y, count(*) as n from t group by x having y > 3",
    "select t.a, count(*) as n from t group by a having t.a = 1",
    "select t.a, count(*) as n from t group by t.a having a = 1",
    "select t.a, count(*) as n from t join u on t.id = u.id group by t.a, u.a having u.a = 1",
    "select distinct a from t group by a, b having b > 10",
    "select a + count(*) as z from t group by a having a + count(*) > 2",
    "select a + count(*) as z from t group by a having z > 2",
    "select max(s) as s, count(*) as n from t group by g having max(s.a) > 5",
    "select max(s) as q, count(*) as n from t group by g having q.a > 5",
    "select max(s) as t, a, count(*) as n from t group by a having t.a > 1",
    "select max(s) as t, a, count(*) as n from t group by a having t.x > 6",
    "select a + 1 as a, count(*) as n from t group by t.a + 1 having 1 < a",
    "select a > 1 as a, count(*) as n from t group by t.a > 1 having a > 1",
    "select sum(b) as b, count(*) as n from t group by a having sum(b) > 20",
    "select sum(b) + 1 as b, count(*) as n from t group by a having sum(b) + 1 > 21",
    "select sum(b) + 1 as x, count(*) as n from t group by a having x + 1 > 21",
    "select upper(g) as g, count(*) as n from t group by upper(g) having g = 'P'",
    "select upper(g) as g, count(*) as n from t group by upper(g) having upper(g) = 'P'",
    "select upper(g) as g, count(*) as n from t group by upper(t.g) having g is not null",
    "select case when a > 1 then 'x' else 'y' end as a, count(*) as n from t group by 1 having case when a > 1 then 'x' else 'y' end = 'x'",
    "select coalesce(a, 0) as a, count(*) as n from t group by coalesce(a, 0) having coalesce(a, 0) >= 0 and a < 2",
    "select t.a as b, max(t.b) as a from t group by t.a having t.a > 1 and a > 10",
    "select a, count(*) as n, max(f) as f from t group by a having f",
    "select a, f, count(*) as n from t group by a, f having not f",
    "select a, g, count(*) as n from t where g in ('0','true') group by a, g having g",
    "select a, count(*) as n from t group by a having (count(*))",
    "select a, count(*) as n from t group by a having (count(*) - 1)",
    "select a, count(*) as n from t group by a having coalesce(a, 0)",
    "select a, count(*) as n from t group by a having 1",
    "select a, count(*) as n from t group by a having 0",
    "select a, count(*) as n from t group by a having true",
    "select a, count(*) as n from t group by a having if(a = 1, true, false)",
    "select a, count(*) as n from t group by a having bool_or(f)",
    "select a, count(*) as n from t group by a having isnull(a)",
    "select a, count(*) as n from t group by a having (select max(v) from u) > 1",
    "select a, count(*) as n from t group by a having a in (select a from u)",
    "select a, count(*) as n from t group by a having not exists (select 1 from u where u.a = 1)",
    "select a, count(*) as n from t group by a having sum(b) filter (where f) > 1",
    "select a + 1 as a, count(*) as n from t group by t.a + 1 having a > 2",
    "select max(a) as a, count(*) as n from t group by g having a > 1",
    # GROUP BY
    "select a, count(*) as n from t group by 1",
    "select count(*) as n from t group by 1 + 1",
    "select s, count(*) as n from t group by s",
    "select t.A, count(*) as n from t group by T.a",
    "select t.id, count(*) as n from t join u using (id) group by t.id",
    "select a + 1 as x, count(*) as n from t group by (a + 1)",
    "select `all` + 1 as k, sum(a) as n from u group by all",
    "select b as a, count(*) as n from t group by b",
    "select b as a, count(*) as n from t group by t.b",
    "select b as a, max(a) as m from t group by 1",
    "select b as a, max(a) as m from t group by b",
    "select a, count(*) as n from t group by (1)",
    "select a, count(*) as n from t group by (a)",
    "select a, b, count(*) as n from t group by (a), (b)",
    "select 'x' as k, count(*) as n from t group by 1",
    "select 'x' as k, count(*) as n from t group by 'x'",
    "select count(*) as n from t group by 'x'",
    "select count(*) as n from t group by null",
    "select count(*) as n from t group by true",
    "select count(*) as n from t group by '1'",
    "select count(*) as n from t group by 1.0",
    "select count(*) as n from t where id > 100 group by 'x'",
    "select a, count(*) as n from t group by 01",
    "select a, 2 as two, count(*) as n from t group by a, two",
    "select a, 2 as two, count(*) as n from t group by two, a",
    "select 2 as two, a, count(*) as n from t group by two, a",
    "select a as two, 3 as three, count(*) as n from t group by three, two",
    "select s.a, count(*) as n from t group by s",
    "select s.a + s.x as y, count(*) as n from t group by s.a, s.x",
    "select s.a, count(*) as n from t group by t.s.a",
    "select t.s.a as y, count(*) as n from t group by s.a",
    "select s as t, count(*) as n from t group by t",
    "select upper(g) as g, count(*) as n from t group by g",
    "select upper(g) as g, count(*) as n from t group by 1",
    "select a + 1 as x, x * 2 as y, count(*) as n from t group by 1",
    "select a + 1 as x, x * 2 as y, count(*) as n from t group by a",
    "select a + 1 as x, count(*) as n from t group by X",
    "select A, count(*) as n from t group by a",
    "select a as `a b`, count(*) as n from t group by `a b`",
    "select a, sum(b) as b from t group by a, b",
    "select a, sum(b) as b from t group by 1",
    "select a, rank() over (order by a) as r from t group by a",
    "select case when a = 1 then 'x' else g end as k, count(*) as n from t group by k",
    "select a from t group by a, b",
    "select a, b as c from t group by a, c",
    "select id, count(*) as n from t join u using (id) group by id",
    "select id, count(*) as n from t join u using (id) group by t.id",
    "select t.id, count(*) as n from t join u using (id) group by id",
    "select id, count(*) as n from t left join u using (id) group by id",
    "select id, count(*) as n from t full join u using (id) group by id",
    "select t.id, count(*) as n from t right join u using (id) group by t.id",
    "select (a) as x, count(*) as n from t group by (a)",
    "select (a + 1) as x, count(*) as n from t group by a + 1",
    "select (a + 1) * 2 as x, count(*) as n from t group by (a + 1)",
    # aliases to the left
    "select a + 1 as X, x * 2 as y from t",
    "select a x, x + 1 y from t",
    "select arr as r, transform(r, e -> e + 1) as q from t",
    "select (t).a from (select s as t, a from t) t",
    "select a + 1 as b, b * 2 as c from t",
    "select a + 1 as b, b * 2 as b, b + 1 as d from t",
    "select a + 1 as s, s.a as y from t",
    "select named_struct('a', a + 1) as s, s.a as y from t",
    "select s as t, t.a as y from t",
    "select s as t, t.x as y from t",
    "select a + 1 as x, x as y, y as z, z as w from t",
    "select sum(a) as x, x + 1 as y from t",
    "select a + 1 as b, row_number() over (partition by b order by id) as rn from t",
    "select row_number() over (partition by a order by id) as rn, rn + 1 as next from t",
    "select row_number() over (partition by a order by id) as rn, case when rn = 1 then 'f' end as k from t",
    "select distinct a + 1 as x, x * 2 as y from t",
    "select 1 as x, x + a as y from t",
    "select 1 as a, a + b as y from t",
    "select 1 as x, x as y",
    "select a as `x y`, `x y` + 1 as z from t",
    "select id as a, a as id, id as z from t",
    "select *, a + 1 as x, x + 1 as y from t",
    "select *, a + 1 as b2, b + 1 as y from t",
    "select v as id, id + 1 as y from t join u using (id)",
    "select transform(arr, x -> x + 1) as q, q[0] as z from t where size(arr) > 0",
    "select a as x, transform(arr, x -> x + 1) as q from t",
    "select a as x, transform(arr, y -> x + y) as q from t",
    "select a as x, case x when 1 then 'one' else 'more' end as c from t",
    "select a as x, x between 1 and 2 as y, x in (1, 2) as z, x is null as n from t",
    "select a as x, cast(x as string) as y, coalesce(x, 0) as z from t",
    "select (a) from t",
    "select (t).x from (select s as t, a from t) t",
    "select ((s)).a, (s.a) from t",
    "select a - (b - 1) as x, x * 2 as y from t",
    "select named_struct('p', s) as q, q.p.a as y from t",
    "select id, x from (select id, all as x from u)",
    "select id from u where all = 1",
    # windows
    "select a, count(*) over (partition by 1) as n from t",
    "select a, count(*) over (partition by (a)) as n from t",
    "select a, count(*) over w as n from t window w as (partition by a)",
    "select a as b, count(*) over w as n from t window w as (partition by b)",
    "select a, sum(sum(b)) over (partition by a) as n from t group by a, g",
    "select a, sum(n) over () as m from (select a, count(*) as n from t group by a)",
    "select s.a as a, count(*) over (partition by a) as n from t",
    "select s.a as a, count(*) over (partition by s.a) as n from t",
    "select id, a, lag(a) over (partition by g order by id) as p, lag(b) over (partition by g order by id) as q from t",
    # fields and qualifiers
    "select w.c.a, w.c.b, c.a as ca from w",
    "select x.a from (select array(s) as x from t)",
    "select s.s.a from t s",
    "select s.id, s.x from t s",
    "select s.x from (select s from t) s",
    "select s.* from t s",
    "select c.a from w c",
    "select c.c.a from w c",
    "select w.a from (select c as w from w)",
    "select w.a from (select c as w, a from w) w",
    "select t.s.a, s.a as z from t where s.a > 1 and t.s.x > 1",
    "select arr[0].a from (select array(s) as arr from t)",
    "select m.k from (select map('k', a) as m from t)",
    "select m['k'] as v from (select map('k', a) as m from t)",
    "select q.s.a from (select named_struct('s', s) as q from t)",
    "select q.a.a from (select named_struct('a', s) as q from t)",
    "select `s.a` from (select a as `s.a`, s from t)",
    "select S.A as z from t",
    # merged columns
    "select * from (select id, a from t) t join (select id, v from u) u using (id)",
    "select t.id from t join u on t.id = u.id join w on w.a = u.a",
    "select id, a from t join u using (id, a)",
    "select t.id as x, u.id as y, id from t left join u using (id)",
    "select t.id as x, u.id as y, id from t right join u using (id)",
    "select t.id as x, u.id as y, id from t full join u using (id)",
    "select * from (select id, a from t) t full join (select id, v from u) u using (id)",
    "select * from (select id, a from t) t right join (select v, id from u) u using (id)",
    "select u.* from (select id, a from t) t join (select id, v from u) u using (id)",
    "select t.* from (select id, a from t) t full join (select id, v from u) u using (id)",
    "select * from (select id, a from t) t natural left join (select id, v from u) u",
    "select id from t semi join u using (id)",
    "select id from t left anti join u using (id)",
    "select a from t left semi join u on t.id = u.id",
    "select t.id, x.v from t join u x on t.id = x.id join u y on y.id = x.id and y.v = x.v",
    "select id from t join u using (id) join (select id from t) z using (id)",
    "select z.id from t join u using (id) left join (select id from t where a = 1) z using (id)",
    "select t.id from t, u where t.id = u.id and u.v is not null",
    # scopes
    "select id from t x where exists (select 1 from t where t.id = x.a)",
    "select * from (with q as (select 1 as one) select * from q)",
    "select id from t where exists (select 1 from u where u.id = id)",
    "select id from t where exists (select 1 from u where u.id = b / 10)",
    "select id from t where id in (select id from u)",
    "select id from t where a in (select a from u where v > b / 10)",
    "select id from t where exists (select 1 from t x where x.a = t.id)",
    "select id from t where exists (select 1 from t where a = 1)",
    "select id from t where g in (select g from (select 'p' as g))",
    "with t as (select id, a + 1 as a from t) select * from t",
    "with x as (select id from t), y as (select id from x) select * from y join x using (id)",
    "with x as (select 1 as a), y as (with x as (select 2 as a) select a from x) select y.a, x.a as b from x, y",
    "with x(p, q) as (select id, a from t) select q, p from x",
    "with x as (select id, a from t) select x.a, y.a as b from x join x y on x.id = y.a",
    "with q as (select 1 as a) select * from (select * from q union all select 2)",
    # lateral views
    "select id, explode(arr) as e from t",
    "select id, x.e from t lateral view explode(arr) x as e",
    "select id, x.a from t lateral view explode(arr) x as a",
    "select id, e from t lateral view outer explode(arr) x as e",
    "select id, explode(arr) from t",
    "select id, posexplode(arr) as (p, e) from t",
    "select id, posexplode(arr) from t",
    "select t.id, col from t lateral view explode(arr) t2",
    "select id, inline(array(s)) as (p, q) from t",
    "select id, k from t lateral view explode(map('a', a)) m as k, v2",
    # stars and words
    "select distinct * from (select a, g from t)",
    "select left from (select a as left from t)",
    "select * except (a) from t",
    "select * except (s) from t",
    "select t.* except (a, b), u.* except (id) from t join u on t.id = u.id",
    "select count(*) as n, count(1) as m, count(a) as k, count(a, b) as j, count(distinct a, b) as i from t",
    "select u.all from u",
    "select `all` from u",
    "select all a from u",
    "select all * from u",
    "select id id, a as id from t",
    "select a as date, date from t",
    "select d as timestamp, timestamp from w",
    "select value from (select a as value from t)",
    "select first(a) as first, first from (select a from t) group by a",
    "select interval from (select a as interval from t)",
    "select a as end, case when a = 1 then 2 end as x from t",
    "select day, day(d) as dd from (select d, 1 as day from w)",
    "select dateadd(day, day, d) as dd from (select d, 1 as day from w)",
    "select datediff(day, d, date'2020-02-01') as dd from (select d, 1 as day from w)",
    "select extract(day from d) as dd from (select d, 1 as day from w)",
    "select if(a = 1, b, id) as x, nvl(a, b) as y, nvl2(a, b, id) as z, nullif(a, 1) as w from t",
)  # fmt: skip

RELATIONS = {
    f"lake.raw.{table}": Relation(
        tuple(Column(*column) for column in columns.items()), ("id",) if "id" in columns else None
    )
    for table, (columns, _) in TABLES.items()
}


@pytest.fixture
def tables(lake: Warehouse) -> Iterator[SparkSession]:
    """The tables, each under its own name and under that by which a plan reads it."""
    views = [view for table in TABLES for view in (table, name_input(TableName("lake", "raw", table), "new"))]
    for view, (columns, rows) in zip(views, (table for table in TABLES.values() for _ in range(2)), strict=True):
        casts = [
            f"cast({quote_name(f'col{at}')} as {kind}) as {quote_name(own)}"
            for at, (own, kind) in enumerate(columns.items(), 1)
        ]
        lake.spark.sql(f"select {', '.join(casts)} from values {rows}").createOrReplaceTempView(quote_name(view))
    yield lake.spark
    for view in views:
        lake.spark.catalog.dropTempView(view)


AMBIGUOUS = (
    "select named_struct('a',9) as c, count(*) as n from w group by w.c having c.a > 5",
    "select named_struct('a',1) as c, count(*) as n from w group by c having c.a > 0",
    "select named_struct('a',9) as c, count(*) as n from w group by w.c.a having c.a > 5",
    "select s.a as s, count(*) as n from t group by s.a having s.a > 5",
    "select s.a as s, count(*) as n from t group by t.s having s.a > 5",
)
"""Queries in whose HAVING a name may be a field of a column, or of the alias of another one."""


@pytest.mark.parametrize("sql", AMBIGUOUS)
def test_a_field_that_may_be_that_of_an_alias_is_refused(sql: str) -> None:
    with pytest.raises(NotMaintained, match="in HAVING may be a field of a column, or of the alias of another one"):
        analyse_query(sql, RELATIONS, {}, "lake", "raw")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "queries",
    [QUERIES[::2], *(pytest.param(queries, marks=pytest.mark.slow) for queries in (QUERIES[1::2], MORE))],
    ids=["some", "others", "more"],
)
def test_names_stand_for_what_they_stand_for_in_spark(tables: SparkSession, queries: tuple[str, ...]) -> None:
    """Columns before aliases or after them, places, fields, merged columns, and words that may be names."""
    different = {}
    for sql in queries:
        query = analyse_query(sql, RELATIONS, {}, "lake", "raw")
        asked = tables.sql(sql)
        names = tuple(own or given for (own, _), given in zip(query.outputs, asked.columns, strict=True))
        made = (
            tables.sql(render_sql(query.tree))
            .selectExpr(*[quote_name(column) for _, column in query.outputs])
            .toDF(*names)
        )
        if (made.dtypes, _rows(made)) != (asked.dtypes, _rows(asked)):
            different[sql] = (made.dtypes, _rows(made), asked.dtypes, _rows(asked))
    assert different == {}


def _rows(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())
