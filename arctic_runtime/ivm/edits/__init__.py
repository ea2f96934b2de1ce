"""Plans how a table follows an edit of its query: what of the new result the table's own rows already are."""
