"""Which tables and columns rows come from, for tools that collect that of many systems."""
