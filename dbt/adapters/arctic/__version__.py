"""The version of this release, read by dbt and by the build of the wheel."""

version = "0.1.0"
