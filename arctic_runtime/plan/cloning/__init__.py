"""Plans of clones: copies of a model's tables that have its snapshots and its files, and none of their own yet."""
