"""Operations on tables besides their refresh, in one registry, from which commands, macros and HTTP are generated."""
