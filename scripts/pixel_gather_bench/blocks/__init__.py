"""How fast cubes are written and read, by block size, codec, concurrency and processes."""
