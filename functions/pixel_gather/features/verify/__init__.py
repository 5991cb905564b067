"""Cubes that are compared with their receipts."""
