"""Java of Spark: its JARs, its JVM, and the errors that come from it."""
