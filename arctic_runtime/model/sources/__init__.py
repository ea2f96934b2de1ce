"""Sources of rows as data: progress of ingestion, consistent cuts, freshness and declarations."""
