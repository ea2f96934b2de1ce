"""The page in the browser: static files that are served unchanged."""
