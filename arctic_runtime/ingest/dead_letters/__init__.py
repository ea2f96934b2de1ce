"""Dead letters: events that can't be applied are kept in a table of their source, and applied later by a replay.

`table` keeps the dead letters and the progress of the source, and `lease` admits one process at a time. `replay`
applies dead letters again: `window` and `outcome` find whether the row of a dead letter has changed since, and
`application` commits.
"""
