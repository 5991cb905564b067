"""Appends to tables of points and zones in this process: only what the table lacks is read."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pixel_gather import BusyError, RequestError, Settings, points, verify_table, zones
from pixel_gather.core.errors import StoreError
from pixel_gather.io.store.file_lock import file_lock
from pixel_gather.tables.part_folder import PartFolder
from rank.rasters import landscape, make_cog
from support.command_line import run
from support.geojson import collection, feature
from support.local_server import LocalServer
from support.tables import CRS, FIELD, rows_of, serving_files

pytestmark = pytest.mark.usefixtures("without_hedges")

N = 5
PLOTS = [{"id": n, "x": 500_000.0 + 150.0 * n, "y": 4_999_500.0 - 90.0 * n} for n in range(20)]
FIELDS = collection([feature(FIELD, id="a")])


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Five images of one grid."""
    folder = tmp_path_factory.mktemp("images")
    return {f"/{n}.tif": make_cog(folder / f"{n}.tif", landscape(n)).read_bytes() for n in range(N)}


@pytest.fixture
def content(images: dict[str, bytes]) -> dict[str, bytes]:
    """What is served. A test may take an image away."""
    return dict(images)


@pytest.fixture
def server(content: dict[str, bytes]) -> Iterator[LocalServer]:
    """Serves them, and counts."""
    with serving_files(content) as found:
        yield found


def listed(server: LocalServer, *numbers: int) -> dict[str, Any]:
    """Return a list of some images, one a day."""
    return {"rows": [{"href": f"{server.root}/{n}.tif", "time": f"2024-06-{n + 1:02d}"} for n in numbers]}


@pytest.mark.long
def test_appends_make_the_table_that_is_made_at_once(server: LocalServer, tmp_path: Path) -> None:
    """Line by line. Images that it has are not opened, and a table that lacks nothing stays as it is."""
    to, at_once = tmp_path / "t.parquet", tmp_path / "u.parquet"
    points(PLOTS, listed(server, 0, 3), append_to=to, id="id", crs=CRS)
    n_before = len(server.asked)
    made = points(PLOTS, listed(server, 4, 2, 3, 1, 0), append_to=to, id="id", crs=CRS)
    asked = {each.path for each in server.asked[n_before:]}
    content, n_before = to.read_bytes(), len(server.asked)
    again = points(PLOTS, listed(server, 1, 2), append_to=to, id="id", crs=CRS)
    n_again = len(server.asked) - n_before
    points(PLOTS, listed(server, *range(N)), to=at_once, id="id", crs=CRS)

    assert asked == {"/1.tif", "/2.tif", "/4.tif"}
    assert (made.n_images, made.n_read, again.n_read, n_again) == (N, 3, 0, 0)
    assert to.read_bytes() == content
    assert again.n_by_status == made.n_by_status
    assert rows_of(to) == rows_of(at_once)
    assert verify_table(to).is_same
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith((".t", "t"))) == [
        "t.features.parquet",
        "t.images.parquet",
        "t.parquet",
    ]


def test_zones_are_appended_to_as_well(server: LocalServer, tmp_path: Path) -> None:
    """With their statistics."""
    to, at_once = tmp_path / "t.parquet", tmp_path / "u.parquet"
    for numbers in ((1,), (0, 1, 2)):
        zones(FIELDS, listed(server, *numbers), append_to=to, id="id", crs=CRS, statistics="mean,p90")
    zones(FIELDS, listed(server, 0, 1, 2), to=at_once, id="id", crs=CRS, statistics="mean,p90")

    assert rows_of(to) == rows_of(at_once)


def test_images_that_failed_are_read_again(
    server: LocalServer, content: dict[str, bytes], tmp_path: Path
) -> None:
    """Also if the list does not name them any more. Both the image and its lines are replaced."""
    to, at_once = tmp_path / "t.parquet", tmp_path / "u.parquet"
    gone = content.pop("/1.tif")
    first = points(PLOTS, listed(server, 0, 1), to=to, id="id", crs=CRS)
    content["/1.tif"] = gone
    made = points(PLOTS, listed(server, 2), append_to=to, id="id", crs=CRS)
    points(PLOTS, listed(server, 0, 1, 2), to=at_once, id="id", crs=CRS)

    assert first.n_failed == 1
    assert (made.n_failed, made.n_read, made.n_images) == (0, 2, 3)
    assert rows_of(to) == rows_of(at_once)


@pytest.mark.parametrize("bands", [("nir", "red"), ("red", "nir", "swir"), ("swir", "nir", "red")])
@pytest.mark.parametrize("numbers", [(0, 1), (2,)])
def test_a_later_list_may_have_its_bands_in_another_order(
    server: LocalServer,
    content: dict[str, bytes],
    tmp_path: Path,
    bands: tuple[str, ...],
    numbers: tuple[int, ...],
) -> None:
    """And more of them. No image comes twice, and one that failed before has the pixels of its own bands."""
    for name, image in zip(("red0", "nir0", "red1", "nir1", "red2", "nir2"), (0, 1, 2, 3, 4, 0), strict=True):
        content[f"/{name}.tif"] = content[f"/{image}.tif"]

    def scenes(numbers: Iterable[int], bands: tuple[str, ...]) -> dict[str, Any]:
        return {
            "rows": [
                {"href": f"{server.root}/{band}{number}.tif", "band": band, "time": f"2024-06-0{number + 1}"}
                for number in numbers
                for band in bands
            ]
        }

    to, at_once = tmp_path / "t.parquet", tmp_path / "u.parquet"
    of_points: dict[str, Any] = {"features": PLOTS, "id": "id", "crs": CRS, "by": "red,nir"}
    gone = content.pop("/nir1.tif")
    points(sources=scenes((0, 1), ("red", "nir")), to=to, **of_points)
    content["/nir1.tif"] = gone

    made = points(sources=scenes(numbers, bands), append_to=to, **of_points)
    points(sources=scenes({0, 1, *numbers}, ("red", "nir")), to=at_once, **of_points)

    assert (made.n_failed, made.n_images) == (0, len({0, 1, *numbers}))
    assert rows_of(to) == rows_of(at_once)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"features": PLOTS[:-1]}, "the table was made of other features: give the same, or make another"),
        ({"by": "b1 * 2"}, "the table was made with another value of by: give the same, or make another"),
        ({"square": 3}, "the table was made with another value of square: give"),
        ({"square": 3, "by": "b1 * 2"}, "the table was made with other values of by and square: give"),
        ({"to": "both"}, "give the table to write, or the one to append to"),
    ],
    ids=str,
)
def test_an_append_of_other_things_is_refused(
    server: LocalServer, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    """Before anything is read."""
    to = tmp_path / "t.parquet"
    asked: dict[str, Any] = {
        "features": PLOTS,
        "sources": listed(server, 0),
        "id": "id",
        "crs": CRS,
        "by": "b1",
    }
    points(**asked, to=to)
    content, n_before = to.read_bytes(), len(server.asked)

    with pytest.raises(RequestError, match=says):
        points(**{**asked, "sources": listed(server, 1), "append_to": to, **changes})
    with pytest.raises(RequestError, match="the table is one of points, and not of zones"):
        zones(**{**asked, "features": FIELDS, "append_to": to})

    assert to.read_bytes() == content
    assert len(server.asked) == n_before


def test_ids_that_repeat_are_refused(server: LocalServer, tmp_path: Path) -> None:
    """A line would not tell of which feature it is. So a table that is to grow is not begun with them."""
    to, twice = tmp_path / "t.parquet", [{**PLOTS[0], "id": 1}, {**PLOTS[1], "id": 1}]

    with pytest.raises(RequestError, match="an id repeats"):
        points(twice, listed(server, 0), append_to=to, id="id", crs=CRS)
    assert not list(tmp_path.iterdir())

    points(twice, listed(server, 0), to=to, id="id", crs=CRS)
    with pytest.raises(RequestError, match="an id repeats"):
        points(twice, listed(server, 1), append_to=to, id="id", crs=CRS)


@pytest.mark.parametrize("killed_in", ["remove", "write"])
def test_what_was_read_before_a_removal_does_not_come_back(
    server: LocalServer,
    content: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed_in: str,
) -> None:
    """The process was killed right after its commit, or while it made the table again.

    Then an image is replaced, and the table removed to have it read again.
    """
    to, at_once = tmp_path / "t.parquet", tmp_path / "u.parquet"
    if killed_in == "write":
        points(PLOTS, listed(server, 0, 1), to=to, id="id", crs=CRS)
    kept = getattr(PartFolder, killed_in)

    def killed(folder: PartFolder, *given: Any) -> None:
        if given:  # the first image is kept
            kept(folder, *given)
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(PartFolder, killed_in, killed)
        with pytest.raises((InterruptedError, StoreError)):
            points(PLOTS, listed(server, 0, 1), to=to, id="id", crs=CRS, settings=Settings(concurrency=1))
    content["/0.tif"] = content["/4.tif"]
    for each in tmp_path.glob("t*.parquet"):
        each.unlink()
    points(PLOTS, listed(server, 0, 1), to=to, id="id", crs=CRS)
    points(PLOTS, listed(server, 0, 1), to=at_once, id="id", crs=CRS)

    assert rows_of(to) == rows_of(at_once)


def test_one_process_at_a_time_writes_a_table(server: LocalServer, tmp_path: Path) -> None:
    """Another one is told so, and nothing is left of the lock."""
    to = tmp_path / "t.parquet"
    with file_lock(to), pytest.raises(BusyError, match="another process writes this table"):
        points(PLOTS, listed(server, 0), append_to=to, id="id", crs=CRS)
    points(PLOTS, listed(server, 0), append_to=to, id="id", crs=CRS)

    assert not [each for each in tmp_path.iterdir() if each.suffix == ".lock"]
    with pytest.raises(StoreError), file_lock(tmp_path / "none" / "t.parquet"):
        pass


def test_command_line_appends(
    server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how many images it has read; a dry run prices them alone."""
    plots, lists, to = tmp_path / "plots.csv", tmp_path / "list.csv", str(tmp_path / "t.parquet")
    plots.write_text("id,x,y\n" + "".join(f"{each['id']},{each['x']},{each['y']}\n" for each in PLOTS))
    command = ["points", str(plots), "--sources", str(lists), "--id", "id", "--crs", CRS, "--append-to", to]
    said = []
    for n in (2, 3):
        lists.write_text("href\n" + "".join(f"{server.root}/{number}.tif\n" for number in range(n)))
        assert run(*command, "--dry-run") == 0
        said.append(capsys.readouterr().out.splitlines()[0])
        assert run(*command, "--quiet") == 0
        out = capsys.readouterr().out

    assert said == ["20 features on 2 images", "20 features on 1 image"]
    assert "60 lines of 20 features on 3 images" in out
    assert "\n1 image read, " in out


@pytest.mark.parametrize("limit", [("--max-usd", "1e-9"), ("--max-seconds", "1e-9")])
def test_a_dry_run_over_a_limit_is_refused(
    server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: tuple[str, str]
) -> None:
    """As the table would be, and as by a deployment."""
    plots, lists = tmp_path / "plots.csv", tmp_path / "list.csv"
    plots.write_text("id,x,y\n" + "".join(f"{each['id']},{each['x']},{each['y']}\n" for each in PLOTS))
    lists.write_text(f"href\n{server.root}/0.tif\n")

    code = run("points", str(plots), "--sources", str(lists), "--crs", CRS, "--dry-run", *limit)

    assert code == 2
    assert "over the limit of" in capsys.readouterr().err
