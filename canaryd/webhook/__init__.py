"""Each transition of an alarm state, posted once to a receiver of the user's: for those without Alertmanager."""
