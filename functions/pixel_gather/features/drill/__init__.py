"""One pixel of every source."""
