"""Normal form of operator trees: equal for queries that differ only in how they are written."""
