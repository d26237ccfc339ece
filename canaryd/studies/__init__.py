"""What is found out before the clock starts: the operating characteristics of a registration."""
