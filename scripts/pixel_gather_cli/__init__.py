"""The ``pixel-gather`` command."""
