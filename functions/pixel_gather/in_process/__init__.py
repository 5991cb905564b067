"""What work in this process shares: the list and its reader, places, progress, settings."""
