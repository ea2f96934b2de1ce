"""Dead letters: events that can't be applied are kept in a table of their source, and replayed when they fit.

`table` keeps them and the progress of the source, `lease` admits one process at a time, `replay` applies them again:
`window` and `outcome` find whether the row of a dead letter has changed since, and `application` commits.
"""
