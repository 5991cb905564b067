"""Catalogs of scenes: made, refreshed and searched."""
