"""Rewrites operator trees to equivalent trees that read fewer rows or columns, and estimates row counts for them."""
