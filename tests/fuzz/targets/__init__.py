"""The parts that are fuzzed, each in a module of its own, by name."""
