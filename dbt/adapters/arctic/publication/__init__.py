"""Publication of a dbt build as a whole (`publish: build`): readers see its models after its tests, all at once."""
