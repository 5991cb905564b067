"""Gathers in this process: on a laptop, in a notebook or on one big machine."""
