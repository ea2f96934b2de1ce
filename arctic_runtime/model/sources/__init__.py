"""Data classes for sources of rows: progress of ingestion, consistent cuts, freshness and declarations."""
