"""Scenes, found in catalogs, by STAC APIs, by CMR and in files."""
