"""Operations on a table, beside its refresh."""
