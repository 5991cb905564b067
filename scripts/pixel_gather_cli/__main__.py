"""``python -m pixel_gather_cli`` is the ``pixel-gather`` command."""

from pixel_gather_cli.main import main

main()
