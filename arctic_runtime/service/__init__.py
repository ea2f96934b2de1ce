"""The service that follows models: refreshes, upkeep, schedules, and what it shows of them."""
