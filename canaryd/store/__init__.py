"""The store: everything that was measured and decided, append-only, on SQLite or PostgreSQL through one code path."""
