"""Dead letters: events that can't be applied are kept in a table of their source, and applied later by a replay.

`table` keeps the dead letters and the progress of the source, and `lease` admits one process at a time. `replay`
applies dead letters again: `window` and `outcome` determine whether the row that a dead letter changes has been changed
since by other events, and `application` commits.
"""
