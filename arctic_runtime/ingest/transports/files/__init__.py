"""The transport that reads change events from files of a folder or bucket."""
