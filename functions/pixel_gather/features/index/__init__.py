"""Header indexes of lists."""
