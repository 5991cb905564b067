"""Runs the notebooks of the gallery, and keeps what they print and draw.

``uv run --group site python -m scripts.run_gallery`` does it after a change there, or with names, such as
``fields``, for these alone. ``on-aws`` needs a deployment: put ``pixel-gather emulate --`` before it all.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

GALLERY: Final = Path(__file__).parents[1] / "docs/gallery"
ON_AWS: Final = "on-aws"
"""The notebook that needs a deployment."""

_SHOWN: Final = ("image/png", "text/plain")


def code_of(notebook: dict[str, Any]) -> list[str]:
    """Return the code of each cell that has some."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def digest_of(notebook: dict[str, Any]) -> str:
    """Return a digest of the code, which tells whether outputs are those of the present code."""
    return hashlib.sha256("\n".join(code_of(notebook)).encode()).hexdigest()[:16]


def run_notebook(path: Path) -> None:
    """Run a notebook in an empty folder, and write its outputs into it."""
    import nbformat  # noqa: PLC0415 # of the group site, which the tests of `code_of` do without
    from nbclient import NotebookClient  # noqa: PLC0415 # as above

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(GALLERY / "made_scenes.py", folder)
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(
            notebook, timeout=300, resources={"metadata": {"path": folder}}, kernel_name="python3"
        ).execute()
        text = nbformat.writes(notebook).replace(f"{Path(folder).resolve()}/", "")
    executed = json.loads(text)
    for cell in executed["cells"]:
        cell["metadata"] = {}
        if "outputs" in cell:  # what goes to stderr depends on the machine
            cell["outputs"] = [each for each in cell["outputs"] if each.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            if "data" in output:
                output["data"] = {kind: output["data"][kind] for kind in _SHOWN if kind in output["data"]}
    executed["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "pixel_gather": {"digest": digest_of(executed)},
    }
    path.write_text(json.dumps(executed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    all_names = [each.stem for each in sorted(GALLERY.glob("*.ipynb"))]
    has_deployment = "PIXEL_GATHER_API" in os.environ
    names = sys.argv[1:] or [each for each in all_names if has_deployment or each != ON_AWS]
    for name in names:
        run_notebook(GALLERY / f"{name}.ipynb")
