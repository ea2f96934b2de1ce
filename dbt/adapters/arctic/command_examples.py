"""Examples of each command, which its help and the page on the commands show."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "status": ("arctic status", "arctic status dwd_orders --json"),
    "explain": ("arctic explain dwd_orders",),
    "history": ("arctic history dwd_orders",),
    "lookup": ("arctic lookup ods_orders 4711",),
    "changes": (
        "arctic changes dwd_orders --from before_the_move --to 6406189876563432417",
        "arctic changes dwd_orders --from before_the_move --format csv",
    ),
    "why": ("arctic why dws_sales --key Bergen", "arctic why dws_sales --key Bergen --depth 1"),
    "sql": (
        'arctic sql "select city, sum(amount) from dwd_orders group by city"',
        "arctic sql \"select * from dwd_orders where city = 'Oslo'\" --format csv",
    ),
    "verify": ("arctic verify", "arctic verify dwd_orders dws_sales"),
    "diff": ("arctic diff dwd_orders --from before_the_move", "arctic diff --target dev --other-target prod"),
    "preview": ("arctic preview", "arctic preview --state state/prod --fail-on 'bytes>1TB'"),
    "run": ("arctic run", "arctic run --once --select +dws_sales"),
    "ingest": ("arctic ingest", "arctic ingest shop --once", "arctic ingest --discover shop"),
    "serve": ("arctic serve", "arctic serve --port 8080 --without ingest"),
    "spark": ("arctic spark status", "arctic spark stop"),
    "compact": ("arctic compact --all", "arctic compact dwd_orders --mode major --plan"),
    "split": ("arctic split dwd_orders --plan",),
    "expire": ("arctic expire dwd_orders --plan", "arctic expire dwd_orders --orphans --older-than 7d"),
    "savepoint": ("arctic savepoint dwd_orders before_the_move", "arctic savepoint dwd_orders before_the_move --drop"),
    "restore": (
        "arctic restore dwd_orders --version before_the_move",
        "arctic restore --cut build_20261128T083012Z_0a1b",
    ),
    "resume": ("arctic resume", "arctic resume dws_sales"),
    "restate": ("arctic restate dwd_orders --where \"day = '2026-01-31'\" --plan",),
    "resync": ("arctic resync orders",),
    "overwrite": ("arctic overwrite ods_orders --from landing.orders_full --as-of 8831",),
    "clones": ("arctic clones",),
    "promote": ("arctic promote --from dev --plan", "arctic promote --from dev dwd_orders"),
    "reset": ("arctic reset dwd_orders", "arctic reset dwd_orders --yes"),
    "forget": ("arctic forget ods_customers --key 4711", "arctic forget ods_customers --key 4711 --yes"),
    "adopt": ("arctic adopt", "arctic adopt --patch", "arctic adopt dwd_orders --yes"),
    "audit": ("arctic audit", "arctic audit --select orders+ --exclude-column loaded_at"),
    "mcp": ("arctic mcp", "arctic mcp --allow plan"),
    "apply": ("arctic apply", "arctic apply 3f0c9a71d2be"),
    "schema": ("arctic schema models",),
    "completion": ("arctic completion bash",),
}
"""Lines to type, by the name of the command."""
