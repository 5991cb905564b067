"""Catalogs of scenes: which images lie in an area, and when. Pure."""
