"""The embedded demo: a loopback server with two models on it, and a fast-forward calendar; nothing else is stubbed."""
