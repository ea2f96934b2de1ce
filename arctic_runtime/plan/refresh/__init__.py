"""Plans for a run of a model: mode, incremental plan, costs, columns, and the steps after the commit."""
