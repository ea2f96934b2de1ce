"""How tests start Java, and how its Spark runs plans over a few rows."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""Options of a Spark with few rows.

With its first compiler alone, Java has room for 48 MB of code by default: Spark's is more, and then a fifth of the time
goes into throwing code away.
"""

INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
"""Settings of sessions that compile no plans: to run them over a few rows costs less."""
