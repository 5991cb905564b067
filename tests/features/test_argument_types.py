"""Arguments of a wrong type are refused by their names, before anything is read or written."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pixel_gather
from pixel_gather import RequestError, Settings, StoreSettings, open_table, open_zones, points

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))
TEXT: Any = "7"
HREFS = [str(file) for file in FILES]
PUBLIC = {
    name: each
    for name in sorted(dir(pixel_gather))
    if not name.startswith("__") and inspect.isfunction(each := getattr(pixel_gather, name))
}


def plain_arguments() -> list[Any]:
    """Return all arguments of all public functions that take settings, a function, or true and false."""
    return [
        pytest.param(function, argument.name, id=f"{name}-{argument.name}")
        for name, function in PUBLIC.items()
        for argument in inspect.signature(function).parameters.values()
        if argument.name in ("settings", "stores", "style", "group", "glob", "regex")
        or argument.name.startswith("on_")
        or argument.annotation is bool
    ]


async def answer_of(answer: Any) -> Any:
    """Return what an asynchronous function returns, or the first that it yields."""
    if isinstance(answer, AsyncIterator):
        return await anext(answer)
    return await answer if isinstance(answer, Awaitable) else answer


@pytest.mark.parametrize("wrong", [{"region": "eu-central-1"}, 7, "no"], ids=["dict", "number", "text"])
@pytest.mark.parametrize(("function", "name"), plain_arguments())
def test_every_public_function_names_an_argument_of_a_wrong_type(
    function: Callable[..., Any], name: str, wrong: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No place is there: the argument is refused before anybody looks."""
    if isinstance(wrong, str) and name in ("group", "glob", "regex"):
        wrong = 3.5
    monkeypatch.chdir(tmp_path)
    others = {
        each.name: "nowhere"
        for each in inspect.signature(function).parameters.values()
        if each.default is inspect.Parameter.empty
    }

    with pytest.raises(RequestError) as caught:
        asyncio.run(answer_of(function(**others | {name: wrong})))

    assert caught.value.field == name
    assert "; write " in caught.value.message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"settings": {"concurrency": 4}}, "settings: it is of type dict; write Settings(...)"),
        ({"settings": StoreSettings()}, "settings: it is of type StoreSettings; write Settings(...)"),
        ({"settings": Settings(stores=TEXT)}, "settings.stores: it is '7'; write StoreSettings(...)"),
        (
            {"settings": Settings(stores=StoreSettings(max_retries=TEXT))},
            "settings.stores.max_retries: it is '7'; write a whole number",
        ),
        (
            {"settings": Settings(source_timeout_s=TEXT)},
            "settings.source_timeout_s: it is '7'; write a number",
        ),
        ({"raw": "no"}, "raw: it is 'no'; write True or False"),
        ({"square": "3"}, "square: it is '3'; write a whole number"),
        ({"by": 7}, "by: it is 7; write text or a list of texts"),
        ({"by": ["b1", 2]}, "by: it is ['b1', 2]; write text or a list of texts"),
        ({"by": {"b1": 1}}, "by: it is of type dict; write text or a list of texts"),
    ],
)
def test_the_message_says_what_to_write(arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    """Fields of settings are checked as well."""
    with pytest.raises(RequestError) as caught:
        points([{"lon": -30, "lat": 0}], HREFS, to=tmp_path / "table.parquet", **arguments)

    assert str(caught.value) == said


@pytest.mark.parametrize("place", [7, "https://example.org/cube.zarr", "s3://UPPER/cube"])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(pixel_gather.verify_table, "table", id="verify_table"),
        *(
            pytest.param(function, "cube", id=each)
            for each, function in PUBLIC.items()
            if "cube" in inspect.signature(function).parameters
        ),
    ],
)
def test_a_wrong_place_is_named_as_the_function_names_it(
    function: Callable[..., Any], name: str, place: object
) -> None:
    """All functions that read a cube call it so."""
    right = {"where": "x > 1", "to": "x.csv"}
    others = {
        each.name: right.get(each.name, "x")
        for each in inspect.signature(function).parameters.values()
        if each.default is inspect.Parameter.empty and each.kind is not inspect.Parameter.VAR_KEYWORD
    }

    with pytest.raises(RequestError) as caught:
        asyncio.run(answer_of(function(**others | {name: place})))

    assert caught.value.field == name


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda _: pixel_gather.PictureStyle(stretch=5), "stretch: write two numbers: black, white"),  # type: ignore[arg-type]
        (lambda _: pixel_gather.PictureStyle(stretch="59"), "stretch: write two numbers: black, white"),  # type: ignore[arg-type]
        (lambda to: pixel_gather.make_catalog(HREFS, to=to), "no STAC item: of a list of files, say"),
        (lambda to: pixel_gather.make_catalog(FILES[0], to=to), "no STAC item: of a list of files, say"),
        (lambda to: pixel_gather.index(HREFS, to=to, overview=-1), "overview: it is -1; write a whole "),
        (lambda _: pixel_gather.drill(HREFS, pixel=(1, 1), bands=[0]), "bands: it is [0]; write a list of "),
    ],
)
def test_values_that_mean_nothing_are_refused(call: Callable[[Path], Any], said: str, tmp_path: Path) -> None:
    """They ended in errors of Python, or were taken."""
    with pytest.raises(RequestError) as caught:
        call(tmp_path / "made.parquet")

    assert said in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_version_is_named_as_the_function_names_it(tmp_path: Path) -> None:
    """It is before which `forget` removes versions."""
    cube = tmp_path / "cube.zarr"
    pixel_gather.gather(
        {"sources": HREFS[:1], "window": "centre"}, to=cube, settings=Settings(draws_report=False)
    )

    with pytest.raises(RequestError, match=r"^before: 'soon' is no number"):
        pixel_gather.forget(cube, "soon")
    with pytest.raises(RequestError, match=r"^before: it is of type list; write a number"):
        pixel_gather.forget(cube, ["soon"])  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=r"^version: 'soon' is no number"):
        pixel_gather.open_cube(cube, "soon")


@pytest.mark.parametrize("word", ["newest", 7])
def test_a_word_of_a_list_is_checked(word: Any) -> None:
    """A search once took any word, and kept all."""
    with pytest.raises(RequestError, match=f"duplicates: it is {word!r}; write latest, all or fail"):
        pixel_gather.search(catalog="catalog.parquet", duplicates=word)


def test_values_of_numpy_are_numbers_and_truths(tmp_path: Path) -> None:
    """They come out of arrays and data frames."""
    table = tmp_path / "table.parquet"
    made = points([{"lon": -30, "lat": 0}], HREFS, to=table, square=np.int64(3), raw=np.bool_(True))  # type: ignore[arg-type] # noqa: FBT003

    assert made.n_lines == len(HREFS)


@pytest.mark.parametrize(
    "sources",
    [
        np.array(HREFS),
        np.array(FILES, dtype=object),
        pd.Series(HREFS),
        pd.Index(HREFS),
        pa.chunked_array([HREFS]),
        FILES,
        (file for file in FILES),
        map(str, FILES),
        ({"href": href} for href in HREFS),
        dict.fromkeys(HREFS).keys(),
        {"hrefs": np.array(HREFS)},
        {"hrefs": pd.Series(HREFS)},
        {"hrefs": (file for file in HREFS)},
    ],
    ids=lambda each: type(each).__name__,
)
def test_sources_are_any_list(sources: Any) -> None:
    """Of NumPy, pandas and Arrow, of paths, and what is made while it is read."""
    assert len(pixel_gather.drill(sources, pixel=(3, 4))) == len(HREFS)


def test_items_as_sources_are_told_from_rows(tmp_path: Path) -> None:
    """What a search finds is a plausible list, but bands are not named."""
    catalog = tmp_path / "catalog.parquet"
    pixel_gather.make_catalog({"hrefs": HREFS, "time": "_%Y-%m"}, kind="sources", to=catalog)
    found = pixel_gather.search(catalog=catalog, duplicates="all")

    for sources in (found, list(found)):
        with pytest.raises(RequestError, match=r'sources: it holds STAC items; write \{"stac": {"items": '):
            pixel_gather.drill(sources, pixel=(3, 4))


def test_windows_are_arrays_too() -> None:
    """As ``total_bounds`` of geopandas is one."""
    window = {"bbox": np.array([-30.0, -10, -20, 10])}

    assert pixel_gather.make_plan({"sources": HREFS, "window": window}).n_sources == len(HREFS)


def test_a_table_says_which_columns_and_ids_it_has(tmp_path: Path) -> None:
    """The message is ours, not that of pyarrow."""
    table = tmp_path / "table.parquet"
    points([{"lon": -30, "lat": 0}], HREFS, to=table)

    with pytest.raises(RequestError, match="columns: there is no column nir; there are id, time, "):
        open_table(table, columns=["id", "nir"])
    for wrong in ("a", "1", b"a", True, 1.5, 2**70, float("nan"), object(), [1], np.datetime64("2020")):
        with pytest.raises(
            RequestError, match="ids: the ids of this table are of type int64; write such ids"
        ):
            open_table(table, ids=[1, wrong])
    assert len(open_table(table, ids=np.array([1]).tolist(), columns=("id",))) == len(HREFS)
    for opened in (open_table, open_zones):
        with pytest.raises(RequestError, match=r"ids: there is no feature 7, 3; there are 1$"):
            opened(table, ids=[7, 1, 3])
    assert list(open_table(table, ids=[1], columns=["b1"]).columns) == ["b1"]


def test_the_features_own_columns_stand_beside_any_columns_of_a_table(tmp_path: Path) -> None:
    """The caller need not ask for ids and times. The lines keep their order."""
    table = tmp_path / "table.parquet"
    points(
        [{"lon": -30, "lat": 0, "name": name, "crop": crop} for name, crop in ("ba", "ac")],
        HREFS,
        to=table,
        id="name",
    )

    lines = open_table(table)
    beside = open_table(table, columns=["b1"], features=True)

    assert list(beside.columns) == ["b1", "lon", "lat", "name", "crop"]
    assert list(beside["crop"]) == [{"b": "a", "a": "c"}[each] for each in lines["id"]]
    assert list(beside["b1"]) == list(lines["b1"])
