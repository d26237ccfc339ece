"""The resident process: it ticks, leases, starts the child that measures, and serves what the store knows."""
