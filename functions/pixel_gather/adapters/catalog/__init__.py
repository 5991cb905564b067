"""Catalogs in a store: made from items, searched by their columns."""
