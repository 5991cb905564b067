"""Builds the documentation as a static site, from the same Markdown that is read in the repository.

``uv run --group site python -m scripts.build_site`` makes it in ``build/site``. A broken link ends the build.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).parents[1]
DOCS: Final = PROJECT / "docs"
GALLERY: Final = DOCS / "gallery"
_ELSEWHERE: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "tests/benchmarks/README.md": "benchmarks.md",
}
"""Pages that do not lie in ``docs``, and what the site calls them."""

_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")


def build_site(folder: Path) -> Path:
    """Build the site, and return its folder.

    What is made in ``pages`` and ``site`` of the folder is replaced.

    Raises:
        subprocess.CalledProcessError: A link leads nowhere, or the generator warns of something else.
    """
    pages = folder / "pages"
    for made in (pages, folder / "site"):
        shutil.rmtree(made, ignore_errors=True)
    staged = {source: pages / name for source, name in _sources().items()}
    for source, page in staged.items():
        page.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".ipynb":
            _write_notebook(source, page)
        elif source.suffix == ".md":
            page.write_text(_relink(source.read_text(encoding="utf-8"), source, staged), encoding="utf-8")
        else:
            shutil.copyfile(source, page)
    shutil.copyfile(DOCS / "zensical.toml", folder / "zensical.toml")
    subprocess.run(  # noqa: S603 # our own words
        [Path(sys.executable).with_name("zensical"), "build", "--clean", "--strict"],
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1"},
        check=True,
    )
    return folder / "site"


def _sources() -> dict[Path, str]:
    """Return what the site is made of: each file, and its name on the site."""
    found = [each for each in DOCS.rglob("*") if each.is_file() and each.suffix not in (".toml", ".pyc")]
    named = {each: str(each.relative_to(DOCS).with_suffix(_suffix(each))) for each in found}
    return named | {PROJECT / path: name for path, name in _ELSEWHERE.items()}


def _suffix(source: Path) -> str:
    return ".md" if source.suffix == ".ipynb" else source.suffix


def _relink(text: str, source: Path, staged: dict[Path, Path]) -> str:
    """Point links to the pages of the site. Of a link to another file of the project, the words remain."""

    def relinked(link: re.Match[str]) -> str:
        image, words, target, anchor = link.groups(default="")
        file = (source.parent / target).resolve()
        if file in staged:
            path = os.path.relpath(staged[file], staged[source].parent)
            return f"{image}[{words}]({path}{anchor})"
        return words if file.exists() else link.group()

    return _LINK.sub(relinked, text)


def _write_notebook(source: Path, page: Path) -> None:
    """Write an executed notebook as a page, with its pictures beside it."""
    parts = []
    for cell in json.loads(source.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            parts.append(_shown(output, page.with_name(f"{page.stem}-{len(parts)}.png")))
    parts.append(f"[The notebook]({source.name}), to run it yourself.")
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    shutil.copyfile(source, page.with_name(source.name))


def _shown(output: dict[str, Any], picture: Path) -> str:
    """Return Markdown for what a cell has printed, returned or drawn."""
    found = output.get("data", {})
    if "image/png" in found:
        picture.write_bytes(base64.b64decode(found["image/png"]))
        return f"![{picture.stem}]({picture.name})"
    text = "".join(output.get("text") or found.get("text/plain", ""))
    return f"```text\n{text.rstrip()}\n```"


if __name__ == "__main__":
    print(build_site(PROJECT / "build/site") / "index.html")  # noqa: T201 # its result
