"""Sources read at one time against what the reader finds out by itself."""
