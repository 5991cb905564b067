"""Builds view.html from scripts/viewer with the npm packages that it locks.

``python -m scripts.build_viewer`` does it after a change there.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from infra.node_tools import node_environment, node_modules
from pixel_gather.core.model.band_names import (
    BAND_NAMES,
    CLASS_COLOURS,
    CLASS_NAMES,
    INDEXES,
    SCENE_CLASSES,
    SUFFIX,
)
from pixel_gather.io.cube.written_report import BUILT_PAGE

SOURCE: Final = Path(__file__).parent / "viewer"


def build_viewer(target: Path) -> None:
    """Build the page as a file. The same source gives the same bytes."""
    node_modules(SOURCE)
    table = {
        "names": BAND_NAMES,
        "classes": CLASS_NAMES,
        "sceneClasses": SCENE_CLASSES,
        "classColours": CLASS_COLOURS,
        "indexes": INDEXES,
        "suffix": SUFFIX,
    }
    subprocess.run(  # noqa: S603 # our own script
        ["node", "build.mjs", str(target), json.dumps(table)],  # noqa: S607 # node_environment says which
        cwd=SOURCE,
        env=node_environment(),
        check=True,
    )


if __name__ == "__main__":
    build_viewer(BUILT_PAGE)
    sys.stdout.write(f"{BUILT_PAGE}: {BUILT_PAGE.stat().st_size:,} bytes\n")
