"""Cubes of every kind, opened by one name in other people's tools."""
