"""Makes docs/figures/report.png, the first screen of a report, in the browser of the tests.

``PYTHONPATH=tests uv run python -m support.report_figure``. The report is that of the made-up valley.
"""

import base64
import sys
import tempfile
from copy import replace
from pathlib import Path
from typing import Final

from obstore.store import LocalStore

from pixel_gather.features.report.cube_evidence import read_evidence
from pixel_gather.features.report.report_files import report_files_of
from support.browser import opened_browser
from support.viewed_cubes import gathered_valley

_FIGURE: Final = Path(__file__).parents[2] / "docs" / "figures" / "report.png"


def report_picture(folder: Path) -> bytes:
    """Return the first screen of the valley's report as PNG, without the names of this machine's folders."""
    gathered = gathered_valley(folder)
    evidence = read_evidence(LocalStore(gathered.place), place="out/valley.zarr")
    warnings = tuple(each.replace(str(folder), "/data") for each in evidence.report.warnings)
    shown = replace(evidence, report=replace(evidence.report, warnings=warnings))
    files = report_files_of(shown, viewer="view.html")
    page_file = folder / "report.html"
    page_file.write_bytes(files["report.html"])
    with opened_browser() as page:
        page.look(width=1280, height=900)
        page.send("Page.navigate", url=page_file.as_uri())
        page.wait("document.readyState === 'complete' && document.querySelector('.sentence')")
        return base64.standard_b64decode(page.send("Page.captureScreenshot", format="png")["data"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        _FIGURE.write_bytes(report_picture(Path(made)))
    sys.stdout.write(f"{_FIGURE}\n")
