"""The figures of one or several runs, those of the report of 2018, and what figures of benchmarks share."""
