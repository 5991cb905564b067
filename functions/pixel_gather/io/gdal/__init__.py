"""The fall-back: GDAL in child processes, for every file that the fast path does not do.

``reader.py`` is the entry; ``decode_in_child.py`` is what runs in the other process.
"""
