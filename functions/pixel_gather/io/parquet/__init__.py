"""Parquet files, read in a child process and written."""
