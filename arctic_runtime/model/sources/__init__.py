"""Data classes for sources of change data: progress of ingestion, consistent versions, freshness and declarations."""
