"""The Java side of Spark: its JARs, its JVM, and errors from Java."""
