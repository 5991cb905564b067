"""Lists of sources, in files and in listings."""
