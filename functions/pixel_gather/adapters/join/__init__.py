"""Joins cubes: reads what members say of themselves, writes the repository or the copied cube."""
