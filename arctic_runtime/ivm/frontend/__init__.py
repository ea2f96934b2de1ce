"""SQL text to a tree of operators. A text that is not understood, or not proven, raises NotMaintained."""
