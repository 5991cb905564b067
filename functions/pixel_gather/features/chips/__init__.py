"""Reads cubes of chips for training: one by one, or in shuffled batches."""
