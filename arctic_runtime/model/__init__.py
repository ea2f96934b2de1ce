"""The vocabulary: tables, versions, windows, states, steps and change sets, and the names that are stored."""
