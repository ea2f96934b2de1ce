"""Reads change rows as Arrow record batches, without Spark and in bounded memory."""
