"""Reads a finished cube, draws its report as page, plots and text, and writes the files."""
