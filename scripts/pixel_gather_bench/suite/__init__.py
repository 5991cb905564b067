"""Engines and concurrencies over a list of sources, every run in a process of its own."""
