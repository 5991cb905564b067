"""The site is built from the documentation, and the notebooks of its gallery run."""

import json
import os
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from build_site import build_site
from run_gallery import GALLERY, ON_AWS, digest_of
from support.notebooks import run_code

PROJECT: Final = Path(__file__).parents[1]
NOTEBOOKS: Final = sorted(GALLERY.glob("*.ipynb"))
_CODE_FILE: Final = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.py)(?:::\w+)?`")
"""A file with its folder, maybe with a test in it."""

_RESOURCE: Final = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?((?:https?:)?//[^\"' >]+)"
    r"|<link\b[^>]*\brel=[\"']?(?:stylesheet|preconnect|icon|preload)\b"
    r"[^>]*\bhref=[\"']?((?:https?:)?//[^\"' >]+)"
    r"|url\([\"']?((?:https?:)?//[^\"')]+)|@import"
)
"""What a browser would ask another host for."""


def test_site_is_built_without_a_broken_link_and_asks_nobody(tmp_path: Path) -> None:
    """All pages have what they need beside them, and can be searched."""
    pytest.importorskip("zensical", reason="needs the group site")

    site = build_site(tmp_path)

    pages = sorted(site.rglob("*.html"))
    names = {str(page.relative_to(site)) for page in pages}
    pictures = list((site / "gallery").glob("*.png"))

    assert {"index.html", "request.html", "gallery/fields.html"} <= names
    assert len(pictures) >= len(NOTEBOOKS)
    assert "Thirty years at a point" in (site / "search.json").read_text()
    for file in (*pages, *site.rglob("*.css")):
        assert _RESOURCE.findall(file.read_text()) == [], file


def test_menu_has_every_page_but_the_decisions() -> None:
    """A page that only one other page links to is hardly found."""
    site = tomllib.loads((PROJECT / "docs/zensical.toml").read_text())
    menu = [page for part in site["project"]["nav"] for pages in part.values() for page in pages]
    docs = PROJECT / "docs"
    files = [each for each in docs.rglob("*") if each.suffix in {".md", ".ipynb"}]
    pages = {each.relative_to(docs).with_suffix(".md").as_posix() for each in files}

    found = {page for page in pages if not page.startswith("decisions/")}
    assert set(menu) == found | {"index.md", "changelog.md", "benchmarks.md"}
    assert len(menu) == len(set(menu))


def test_every_page_says_whom_it_is_for() -> None:
    """Its first line begins so, below the heading."""
    pages = [each for each in (PROJECT / "docs").glob("*.md") if each.name != "README.md"]
    first = {page.name: page.read_text().split("\n\n")[1] for page in pages}

    assert not {name: line[:60] for name, line in first.items() if not line.startswith("For ")}


def test_files_of_code_that_pages_name_are_there() -> None:
    """No page names a file that has moved. Decisions are left out: they name files of their day."""
    files = [
        f"/{path.relative_to(PROJECT).as_posix()}"
        for folder in ("functions", "infra", "scripts", "tests")
        for path in (PROJECT / folder).rglob("*.py")
    ]
    pages = [PROJECT / "README.md", *(PROJECT / "docs").glob("*.md"), PROJECT / "tests/benchmarks/README.md"]
    moved = [
        (page.name, name)
        for page in pages
        for name in _CODE_FILE.findall(page.read_text())
        if not any(file.endswith(f"/{name}") for file in files)
    ]

    assert not moved


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_of_a_notebook_are_those_of_its_code(path: Path) -> None:
    """After a change, ``python -m scripts.run_gallery`` runs it again. It names no folder of a machine."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    printed = json.dumps([cell.get("outputs") for cell in notebook["cells"]])

    assert notebook["metadata"]["pixel_gather"]["digest"] == digest_of(notebook)
    assert "image/png" in printed
    assert "Warning" not in printed
    assert tempfile.gettempdir() not in printed


@pytest.mark.long
@pytest.mark.parametrize(
    "path", [each for each in NOTEBOOKS if each.stem != ON_AWS], ids=lambda path: path.stem
)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    """It needs the files beside it, and no Internet. It asserts what it says."""
    run_code(path, tmp_path, os.environ)
