"""Expressions with the types that are told of them without asking Spark; None where none is."""

from __future__ import annotations

COLUMNS = {"i": "int", "s": "string", "p": "decimal(15,2)", "q": "decimal(15,2)", "d": "date", "f": "float"}

TYPED: dict[str, str | None] = {
    "`i`": "int",
    "max(`s`) over (partition by `i`)": "string",
    "-1": "int",
    "3000000000": "bigint",
    "12.50": "decimal(4,2)",
    "0.05": "decimal(2,2)",
    "0.": "decimal(1,0)",
    "007.5": "decimal(2,1)",
    "`p` * 0.05": "decimal(18,4)",
    "`p` + 007": "decimal(16,2)",
    "1e3": None,
    "count(*) filter (where `i` > 0)": "bigint",
    "sum(`i`)": "bigint",
    "row_number() over (order by `i`)": "int",
    "coalesce(`s`, null, 'none')": "string",
    "coalesce(`s`, `i`)": None,
    "case when `i` > 0 then 'a' when `i` < 0 then `s` end": "string",
    "case when `i` > 0 then 1 else 'b' end": None,
    "cast(`s` as decimal(5,1))": "decimal(5, 1)",
    "md5(`s`)": "string",
    "concat(`s`, `s`)": None,
    "`i` + 1": "int",
    "`i` * 3000000000": "bigint",
    "`p` * (1 - `q`)": "decimal(32,4)",
    "sum(`p` * (1 - `q`) * (100 + `q`))": None,
    "sum(`p` - `q`)": "decimal(26,2)",
    "sum(`p` * `q`)": "decimal(38,4)",
    "`p` * `i`": "decimal(26,2)",
    "`p` - -1": None,
    "`p` + `s`": None,
    "`p` * 2.5": "decimal(18,3)",
    "`p` / `q`": None,
    "`d` - 1": None,
    "`f` * `p`": None,
    "sum(`f`)": "double",
    "max(`p` + `i`)": "decimal(16,2)",
}
