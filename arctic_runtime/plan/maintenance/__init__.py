"""Plans for the files and versions of tables: compaction, bucket splits and merges, expiry, and a schedule for them."""
