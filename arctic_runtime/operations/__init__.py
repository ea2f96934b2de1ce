"""Operations on tables besides refreshes, such as compaction, in one registry that commands, macros and HTTP use."""
