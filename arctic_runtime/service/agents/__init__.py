"""Tools for agents, made from the registry of operations: what they may ask, what they get, and what they propose."""
