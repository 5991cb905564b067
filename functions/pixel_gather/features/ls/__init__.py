"""Lists of folders and prefixes."""
