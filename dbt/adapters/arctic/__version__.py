"""The version of this release, which dbt and the build of the wheel read."""

version = "0.1.0"
