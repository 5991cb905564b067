"""Finds out how much to ask of one back end at a time. So nobody has to choose a number."""
