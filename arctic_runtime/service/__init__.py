"""The service that follows models: refreshes, upkeep, schedules, and the views of its state."""
