"""The command `python -m arctic_runtime.spark.jars`: fetches what Spark needs, see `engine.jars`."""

from __future__ import annotations

import sys

from arctic_runtime.spark.engine.java.jars import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
