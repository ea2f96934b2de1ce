"""Operations on tables beside their refresh, in one registry: commands, macros and HTTP are made from it."""
