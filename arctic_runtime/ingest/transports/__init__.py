"""One module for each way on which change events come in, all behind the interface in `transport`."""
