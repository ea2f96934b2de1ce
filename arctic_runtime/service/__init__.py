"""The service that keeps a project's tables fresh: refreshes, upkeep, schedules, and the views of its state."""
