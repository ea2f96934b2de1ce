"""Change events: checks, their order, and the rules by which a model computes a row from the events of its key."""
