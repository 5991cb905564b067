"""Refuses to be installed by another Python than the project needs, before packages are looked for.

The pip of Python 3.11 looks for packages first. Its error is about one of them, and does not name Python.
This runs in any Python, so it uses nothing new.
"""

import platform
import sys

from hatchling.metadata.plugin.interface import MetadataHookInterface

OLDEST, NEWEST = (3, 13), (3, 14)


class CustomMetadataHook(MetadataHookInterface):
    """Changes no metadata."""

    def update(self, metadata):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, ARG002 # hatchling's own signature
        """Refuse other versions of Python."""
        if not OLDEST <= sys.version_info[:2] <= NEWEST:
            sys.exit(
                "Pixel Gather needs Python 3.13 or 3.14, and this is Python "
                + platform.python_version()
                + ". "
                "Install one of them, and repeat the command with it: python3.13 -m pip install '.[all]'"
            )
