"""Comparing two result files, without a store: rows in, one comparison out."""
