"""One refresh of a model: its changes computed and published."""
