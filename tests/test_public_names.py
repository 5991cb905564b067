"""The public names of ``pixel_gather``: by import, by TAB, by a type checker."""

import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path

import pytest

import pixel_gather

SERIES = Path(__file__).parent / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
PUBLIC = [name for name in dir(pixel_gather) if not name.startswith("__")]


def listed() -> dict[str, str]:
    """Return the names that type checkers read, each with the module that defines it."""
    tree = ast.parse(Path(pixel_gather.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {str(name.asname): str(node.module) for node in imports for name in node.names}


def test_every_public_name_is_there_and_seen_by_tab() -> None:
    """No other names are seen except Python's own."""
    assert set(PUBLIC) == set(listed()) - {"__version__"}
    assert "__version__" in dir(pixel_gather)
    for name in PUBLIC:
        assert getattr(pixel_gather, name) is not None


def test_the_page_of_python_says_which_arguments_may_be_left_out() -> None:
    """All arguments with a default have it there, also those that need not be named."""
    page = (Path(__file__).parents[1] / "docs/python.md").read_text()
    functions = {name: getattr(pixel_gather, name) for name in PUBLIC}

    for name, function in functions.items():
        if not inspect.isfunction(function):
            continue
        (shown,) = ast.parse(page.split(f"### {name}\n\n```python\n")[1].partition("\n```")[0] + ": ...").body
        assert isinstance(shown, ast.FunctionDef | ast.AsyncFunctionDef)
        with_default = [*shown.args.args[len(shown.args.args) - len(shown.args.defaults) :]]
        with_default += [
            each
            for each, value in zip(shown.args.kwonlyargs, shown.args.kw_defaults, strict=True)
            if value is not None
        ]
        parameters = inspect.signature(function).parameters.values()
        assert [each.arg for each in with_default] == [
            each.name for each in parameters if each.default is not inspect.Parameter.empty
        ]


def test_the_page_of_python_names_the_arguments_of_methods() -> None:
    """Without them, nobody could call a method by this page."""
    page = (Path(__file__).parents[1] / "docs/python.md").read_text()

    assert "\n- `split(shares, *, apart_km, seed=0)`: " in page
    assert "\n- `where(**columns)`: " in page
    assert "\n- `close()`: " in page


@pytest.mark.long
def test_no_name_turns_into_a_module() -> None:
    """This holds whichever name is used first: each one in turn, in a package that is imported anew."""
    program = """
import sys, types

def first_used(name):
    for module in [each for each in sys.modules if each.partition(".")[0] == "pixel_gather"]:
        del sys.modules[module]
    import pixel_gather
    getattr(pixel_gather, name)
    is_module = lambda each: each[:2] != "__" and isinstance(getattr(pixel_gather, each), types.ModuleType)
    return list(filter(is_module, dir(pixel_gather)))

print({name: first_used(name) for name in sys.argv[1:]})
"""
    names = ["gather", "drill", "DrilledPixel", "ls", "search", "make_catalog", "Report"]

    ended = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program, *names], capture_output=True, text=True, check=True
    )

    assert ast.literal_eval(ended.stdout) == {name: [] for name in names}


def test_public_names_are_where_they_are_defined() -> None:
    """Type checkers and Python read the same list of names."""
    for name, module in listed().items():
        found = getattr(pixel_gather, name)
        assert found is getattr(import_module(module), name)
        assert getattr(found, "__module__", module) == module
    assert resources.files("pixel_gather").joinpath("py.typed").is_file()


def test_star_imports_have_the_public_names() -> None:
    """As in any package with a list of its names."""
    namespace: dict[str, object] = {}
    exec("from pixel_gather import *", namespace)  # noqa: S102 # as in a notebook

    assert set(listed()) <= set(namespace)


def test_every_error_that_a_gather_raises_is_public() -> None:
    """Callers can catch it by name."""
    errors = import_module("pixel_gather.core.errors")
    documented = pixel_gather.gather.__doc__ or ""

    raised = {name for name in dir(errors) if name.endswith("Error") and f"{name}:" in documented}
    assert raised >= {"RequestError", "StoreError"}
    assert raised <= set(PUBLIC)


def test_unknown_name_is_an_attribute_error() -> None:
    """An unknown name fails as in any module."""
    with pytest.raises(AttributeError, match="nosuch"):
        pixel_gather.nosuch  # type: ignore[attr-defined] # noqa: B018 # looking it up is the test


@pytest.mark.long
def test_paths_are_taken_wherever_texts_are(tmp_path: Path) -> None:
    """Paths work in requests, for lists and for output locations."""
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{file}\n" for file in FILES))
    settings = pixel_gather.Settings(draws_report=False)
    index = tmp_path / "headers.parquet"

    indexed = pixel_gather.index(listed, to=index)
    digests = {
        pixel_gather.gather(
            {"sources": sources, "window": {"pixels": [3, 4, 5, 6]}, "index": index},
            to=tmp_path / f"{number}.zarr",
            settings=settings,
        ).report.digest
        for number, sources in enumerate([listed, FILES, {"list": listed}, {"hrefs": FILES}])
    }
    plan = pixel_gather.make_plan(
        {"sources": {"prefix": SERIES, "glob": "heat_content_anomaly_0-2000*.tif"}, "window": "centre"}
    )

    assert indexed.n_indexed == len(FILES)
    assert len(digests) == 1
    assert plan.n_sources == len(FILES)


def test_drill_and_ls_are_functions_of_python() -> None:
    """They do the same as the commands of these names."""
    found = [each.href for each in pixel_gather.ls(SERIES, glob="heat_content_anomaly_0-2000*.tif")]

    pixels = pixel_gather.drill(found, pixel=(180, 90), bands=[1])

    assert [href.rpartition("/")[2] for href in found] == [file.name for file in FILES]
    assert [pixel.status for pixel in pixels] == [pixel_gather.Status.OK] * len(FILES)
    assert {(pixel.row, pixel.col, len(pixel.values)) for pixel in pixels} == {(90, 180, 1)}
    with pytest.raises(pixel_gather.RequestError, match="point: the longitude is 500; write degrees from "):
        pixel_gather.drill(["/a.tif"], point=(500, 46))
    with pytest.raises(pixel_gather.RequestError, match="exactly one of point, xy and pixel"):
        pixel_gather.drill(found, pixel=(0, 0), point=(1, 2))


def test_gathered_opens_as_a_dataset(tmp_path: Path) -> None:
    """It opens with xarray, without further arguments."""
    gathered = pixel_gather.gather(
        {"sources": FILES, "window": {"pixels": [3, 4, 5, 6]}},
        to=tmp_path / "cube.zarr",
        settings=pixel_gather.Settings(draws_report=False),
    )

    cube = gathered.open()

    assert cube.band_1.shape == (len(FILES), 6, 5)
    record = json.loads(cube.attrs["pixel_gather"])
    assert record["report"]["digest"] == gathered.report.digest
    assert min(record["footprints"]["window"]) == [cube.x[0] - 0.5, cube.y[-1] - 0.5]
    assert record["footprints"]["sources"] == [[[-180, -90], [180, -90], [180, 90], [-180, 90]]]
    assert f"pixel-gather view {gathered.place}" in gathered._repr_html_()
