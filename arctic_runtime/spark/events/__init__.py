"""Change events: checked, put in order, and folded to the row that they leave behind, by the rules of a model."""
