"""Joins cubes: what makes them fit, where each one's rows and shards lie in the whole. Pure."""
