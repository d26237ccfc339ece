"""The benchmarks: every figure a ratio measured in one run against a peer or a limit; `make bench` runs them all."""
