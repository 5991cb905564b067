"""The benchmarks of ``pixel-gather bench``."""
