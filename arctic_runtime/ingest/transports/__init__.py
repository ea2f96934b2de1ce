"""The transports that fetch change events, one module each, all behind the interface in `transport`."""
