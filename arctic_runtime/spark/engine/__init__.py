"""The JVM: JARs, sessions, the server that is kept, statements and settings."""
