"""The service that keeps a project's tables fresh: refreshes, upkeep of files, schedules, and views of its state."""
