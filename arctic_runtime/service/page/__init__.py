"""The page in the browser: files that are served as they are."""
