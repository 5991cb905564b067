"""From a request and a few headers to a cube's layout and its shard tasks."""
