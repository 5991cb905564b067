"""Lists of sources, read from files and from listings of folders."""
