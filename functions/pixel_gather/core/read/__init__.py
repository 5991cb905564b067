"""From sources to the pixels of one shard."""
