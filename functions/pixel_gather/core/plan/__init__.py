"""Plan a gather: from a request and a few headers to the cube's layout and the shard tasks."""
