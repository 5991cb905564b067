"""Reads lists of sources from files and from listings of folders."""
