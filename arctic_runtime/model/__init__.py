"""The vocabulary: what a table, a version, a window, a state and a step are. Data only."""
