"""Pure decisions: from what was observed to what has to be done. No Spark, no clock, no I/O."""
