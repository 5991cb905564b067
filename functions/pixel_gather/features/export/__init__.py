"""Writes a finished cube in other formats, each by the library that knows the format."""
