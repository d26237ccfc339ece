"""One measurement: what to ask in which order, what to ask again, and what is kept."""
