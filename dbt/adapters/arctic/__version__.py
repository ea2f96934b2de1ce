"""The version of a release, which the build of the wheel and dbt read."""

version = "0.1.0"
