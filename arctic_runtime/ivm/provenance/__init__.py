"""Why-provenance: finds the changed source rows that a result row comes from, over the operator tree of a query."""
