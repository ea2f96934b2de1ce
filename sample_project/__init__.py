"""Sample project: the flights that left New York in 2013, from change events to daily figures."""
