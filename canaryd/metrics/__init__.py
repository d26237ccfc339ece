"""What Prometheus sees: a snapshot of the store, rendered at scrape without touching the database."""
