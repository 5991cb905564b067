"""A gather in a real Jupyter kernel, whose event loop runs all the time."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
JUPYTER = ("ipykernel==7.4.0", "nbclient==0.11.0")

pytestmark = pytest.mark.slow

_RUN = """
import json, sys
import nbclient, nbformat

cells = [nbformat.v4.new_code_cell(each) for each in json.load(sys.stdin)]
notebook = nbclient.NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=300).execute()
json.dump([[dict(each) for each in cell.outputs] for cell in notebook.cells], sys.stdout)
"""


@pytest.mark.long
def test_gather_shows_progress_and_results_beside_a_running_loop(tmp_path: Path) -> None:
    """A bar below the cell, renewed in its place; plan and cube as tables; and an awaited gather."""
    uv = shutil.which("uv")
    assert uv is not None, "uv is not on PATH: source scripts/setup.sh"
    request = {"sources": str(PROJECT / "tests/data/demo/sources.csv"), "window": {"tile": "centre"}}
    first = "from pixel_gather import NotebookProgress, gather, gather_async, make_plan"
    cells = [
        f"{first}\nrequest = {request!r}\nmake_plan(request)",
        f"gather(request, to={str(tmp_path / 'a.zarr')!r}, on_progress=NotebookProgress())",
        f"(await gather_async(request, to={str(tmp_path / 'b.zarr')!r})).report.n_failed",
    ]
    options = [option for each in JUPYTER for option in ("--with", each)]
    command = [uv, "run", "--quiet", "--locked", *options, "python", "-c", _RUN]
    ended = subprocess.run(  # noqa: S603 # our own words
        command, input=json.dumps(cells), capture_output=True, text=True, check=False, cwd=PROJECT
    )
    assert ended.returncode == 0, ended.stderr

    plan, gathered, awaited = json.loads(ended.stdout)
    assert "<b>Plan of " in plan[-1]["data"]["text/html"]
    bar, result = gathered[0]["data"]["text/html"], gathered[-1]["data"]["text/html"]
    assert "<progress " in bar
    n_done, _, n_sources = bar.partition("</progress> ")[2].split()[:3]
    assert n_done == n_sources
    assert sum("<progress " in each.get("data", {}).get("text/html", "") for each in gathered) == 1
    assert "<table>" in result
    assert awaited[-1]["data"]["text/plain"] == "0"
