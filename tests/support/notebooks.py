"""Runs the code of a notebook of the gallery as a script."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from run_gallery import GALLERY, code_of


def run_code(notebook: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Run the code in a folder that holds what lies beside the notebook.

    Raises:
        AssertionError: It ends with an error.
    """
    shutil.copy(GALLERY / "made_scenes.py", folder)
    (folder / "notebook.py").write_text("\n".join(code_of(json.loads(notebook.read_text()))))

    ended = subprocess.run(
        [sys.executable, "notebook.py"],
        cwd=folder,
        env={**environment, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
