"""Transitions, warnings and dead runs, each posted once to a receiver of the user's: for those without Alertmanager."""
