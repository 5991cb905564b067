"""Rules of a gather. Nothing here reads or writes, and no library of files or stores is imported."""
