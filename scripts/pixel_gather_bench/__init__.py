"""The benchmarks behind ``pixel-gather bench``: ways of reading, block sizes, concurrency."""
