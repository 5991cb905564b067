"""The benchmark of a list: each engine at each concurrency, every run in its own process."""
