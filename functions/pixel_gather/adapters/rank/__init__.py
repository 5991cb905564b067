"""What a ranking needs of the world: shapes on images, ranges that are read once, kept statistics, tables."""
