"""Measures the area service: links of a box for many clients, and folders listed by a pool."""
