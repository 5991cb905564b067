"""Cubes of chips as datasets for training."""

import io
import json
import os
import pickle
import shutil
import sys
import tarfile
import warnings
from collections.abc import Iterator
from copy import replace
from itertools import groupby, pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import obstore
import pytest

from pixel_gather import ChipDataset, open_chips
from pixel_gather.core.errors import MissingExtraError, RequestError, StoreError
from pixel_gather.core.results.receipt import Receipt
from pixel_gather.features.chips.chip_batches import ChipBatches
from pixel_gather.features.chips.epoch_order import order_of_epoch
from pixel_gather.features.chips.split_places import places_apart, share_out
from pixel_gather.io.cube import chip_pixels
from support.command_line import run
from support.dependency_groups import module_of_group
from support.identities import alike, another, check_identity
from support.images import TILES_OF_64, write_image
from support.undrawn import gather_undrawn

N_CHIPS = 40
SIDE = 16

type Values = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gather forty chips of three images with two bands. Five lie beyond the third image."""
    folder = tmp_path_factory.mktemp("chips")
    lines = ["href,time"]
    for month in (1, 2, 3):
        pixels = np.random.default_rng(month).integers(1, 999, (2, 300, 300), dtype="uint16")
        pixels = pixels[:, : 300 if month < 3 else 200]
        file = folder / f"{month}.tif"
        write_image(file, pixels, west=10, north=50, size=0.01, crs="EPSG:4326", **TILES_OF_64)
        lines.append(f"{file},2024-{month:02}-01")
    (folder / "list.csv").write_text("\n".join(lines))
    chips = ["id,lon,lat,label,part"]
    for number in range(N_CHIPS):
        row, col = divmod(number, 8)
        lon, lat = 10.2 + col * 0.35, 49.8 - row * 0.65
        chips.append(f"c{number:02},{lon},{lat},{number % 3},{'test' if number % 4 == 0 else 'train'}")
    (folder / "chips.csv").write_text("\n".join(chips))
    with pytest.MonkeyPatch.context() as patch:  # so that forty small chips are in several shards
        patch.setattr("pixel_gather.core.plan.choose_layout._SMALL_CHIP_SHARD_NBYTES", 0)
        gather_chips(folder / "list.csv", folder / "chips.csv", to=folder / "cube")
    return folder / "cube"


def by_id(chips: ChipDataset) -> dict[str, Values]:
    """Return the pixels of each chip as xarray reads them, shape (band, time, y, x)."""
    import xarray as xr  # noqa: PLC0415 # 0.5 s

    cube = xr.open_zarr(chips.places[0], mask_and_scale=False)
    return {
        str(chip): np.stack([cube[name].to_numpy()[at] for name in ("band_1", "band_2")])
        for at, chip in enumerate(cube["chip"].to_numpy())
    }


def check_pixels(batch: Any, expected: dict[str, Values]) -> None:
    """Assert that a batch has the pixels of its chips."""
    for at, chip in enumerate(batch["chip"]):
        np.testing.assert_array_equal(batch["pixels"][at], expected[str(chip)])


def gather_chips(sources: Path, chips: Path, *, to: Path | None, **more: Any) -> None:
    """Gather chips of a table from the images of a list."""
    windows = {"table": str(chips), "size": [SIDE, SIDE]}
    gather_undrawn({"sources": str(sources), "windows": windows} | more, to=to)


def ids(batches: Any) -> list[str]:
    """Return the ids of all chips in order."""
    return [str(each) for batch in batches for each in batch["chip"]]


@pytest.mark.long
def test_a_chip_is_what_the_cube_holds(place: Path) -> None:
    """Pixels, status, id and columns; also in another process's copy."""
    chips = open_chips(place)
    expected = by_id(chips)

    assert len(chips) == N_CHIPS
    for index in (0, 17, N_CHIPS - 1, -1):
        chip = chips[index]
        np.testing.assert_array_equal(chip["pixels"], expected[str(chip["chip"])])
        assert chip["pixels"].dtype == np.uint16
        assert chip["status"].shape == (2, 3)
        assert int(chip["label"]) == int(str(chip["chip"])[1:]) % 3
    copied = pickle.loads(pickle.dumps(chips))  # noqa: S301 # our own
    np.testing.assert_array_equal(copied[3]["pixels"], chips[3]["pixels"])
    with pytest.raises(IndexError):
        chips[N_CHIPS]
    assert chips.times.astype("datetime64[M]").astype(str).tolist() == ["2024-01", "2024-02", "2024-03"]


@pytest.mark.long
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("batch", "workers", "window_shards"), [(7, 1, 1), (16, 3, 2), (100, 2, 9)])
def test_an_epoch_gives_every_chip_once(
    place: Path, *, shuffle: bool, batch: int, workers: int, window_shards: int
) -> None:
    """Whole, and with its own columns."""
    chips = open_chips(place)
    expected = by_id(chips)
    batches = chips.batches(
        batch=batch, shuffle=shuffle, seed=5, workers=workers, window_shards=window_shards
    )
    found = list(batches)

    assert len(found) == len(batches) == -(-N_CHIPS // batch)
    assert sorted(ids(found)) == sorted(expected)
    assert (ids(found) != chips.columns["chip"].tolist()) is shuffle
    for each in found:
        assert each["pixels"].shape == (len(each["chip"]), 2, 3, SIDE, SIDE)
        check_pixels(each, expected)
        assert each["label"].tolist() == [int(str(chip)[1:]) % 3 for chip in each["chip"]]


@pytest.fixture(scope="module")
def parts(place: Path) -> list[Path]:
    """Gather two images into one cube, and the third into another, with one more chip and its own order."""
    folder = place.parent
    head, *images = (folder / "list.csv").read_text().splitlines()
    names, *chips = (folder / "chips.csv").read_text().splitlines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pixel_gather.core.plan.choose_layout._SMALL_CHIP_SHARD_NBYTES", 0)
        for name, of_images, some in [
            ("early", images[:2], chips),
            ("late", images[2:], chips[N_CHIPS // 2 :]),
            ("late", images[2:], [*chips, "extra,11.0,49.0,7,train"]),
        ]:
            (folder / "part.csv").write_text("\n".join([head, *of_images]))
            (folder / "some.csv").write_text("\n".join([names, *some]))
            appends = (folder / name).exists()
            output = {"append_to": str(folder / name)} if appends else {}
            to = None if appends else folder / name
            gather_chips(folder / "part.csv", folder / "some.csv", to=to, output=output)
    return [folder / "early", folder / "late"]


@pytest.mark.long
def test_cubes_of_the_same_chips_are_read_as_one(place: Path, parts: list[Path], tmp_path: Path) -> None:
    """Images follow one another, whatever the order of the chips in each cube."""
    whole, together = open_chips(place), open_chips(parts)
    expected = by_id(whole)
    assert together.columns["chip"].tolist() == open_chips(parts[0]).columns["chip"].tolist()
    assert together.columns["chip"].tolist() != open_chips(parts[1]).columns["chip"].tolist()[:N_CHIPS]
    assert together.times.tolist() == whole.times.tolist()

    status = {str(chip["chip"]): chip["status"].tolist() for chip in (whole[at] for at in range(N_CHIPS))}
    for chips in (together, pickle.loads(pickle.dumps(together))):  # noqa: S301 # our own
        for at in (0, 23, N_CHIPS - 1):
            chip = chips[at]
            np.testing.assert_array_equal(chip["pixels"], expected[str(chip["chip"])])
            assert chip["status"].tolist() == status[str(chip["chip"])]
    found = list(together.where(part="train").batches(batch=7, shuffle=True, seed=1, window_shards=2))
    assert sorted(ids(found)) == sorted(whole.where(part="train").columns["chip"].tolist())
    for batch in found:
        check_pixels(batch, expected)
        assert batch["status"].tolist() == [status[str(name)] for name in batch["chip"]]
    together.to_webdataset(tmp_path / "t.tar")
    with tarfile.open(tmp_path / "t-000000.tar") as tar:
        told = json.load(tar.extractfile("000000000.json"))  # type: ignore[arg-type] # it is a file
        pixels = np.load(io.BytesIO(tar.extractfile("000000000.npy").read()))  # type: ignore[union-attr] # as above
    assert [each[:7] for each in told["times"]] == ["2024-01", "2024-02", "2024-03"]
    np.testing.assert_array_equal(pixels, expected[told["chip"]])


@pytest.mark.long
def test_cubes_that_do_not_fit_together_are_refused(place: Path, parts: list[Path], tmp_path: Path) -> None:
    """The message says what differs."""
    folder = place.parent
    chips = (folder / "chips.csv").read_text()

    def other(name: str, table: str, size: int, **more: Any) -> Path:
        (tmp_path / "table.csv").write_text(table)
        windows = {"table": str(tmp_path / "table.csv"), "size": [size, size]}
        sources = {"sources": str(folder / "list.csv"), "windows": windows}
        gather_undrawn(sources | more, to=tmp_path / name)
        return tmp_path / name

    small = other("small", chips, 8)
    moved = other("moved", chips.replace("c00,10.2,", "c00,10.21,"), SIDE)
    one_band = other("one_band", chips, SIDE, bands=[1])
    untimed = other("untimed", chips, SIDE, sources=[str(folder / f"{month}.tif") for month in (1, 2)])
    for cube, message in [
        (small, "has chips of 8 x 8, and .*early has 16 x 16"),
        (moved, "has chip c00 at another lon than"),
        (one_band, r"has measurements band_1 \(uint16\), and .* band_2 \(uint16\): open them one by one"),
        (untimed, "has images by href, and .* has time"),
    ]:
        with pytest.raises(RequestError, match=message):
            open_chips([parts[0], cube])
    with pytest.raises(RequestError, match=r"early has no chip extra, which .*late has"):
        open_chips(parts[::-1])
    with pytest.raises(RequestError, match="cube: give at least one cube of chips"):
        open_chips([])


def test_epochs_differ_and_equal_seeds_do_not(place: Path) -> None:
    """The order is the seed's and the epoch's."""
    chips = open_chips(place)
    one, other = (chips.batches(batch=8, shuffle=True, seed=1) for _ in range(2))
    epochs = [ids(one), ids(one)]

    assert epochs[0] != epochs[1]
    assert [ids(other), ids(other)] == epochs
    assert ids(chips.batches(batch=8, shuffle=True, seed=2)) != epochs[0]


@pytest.mark.long
@pytest.mark.parametrize("n_before", [0, 1, 4, 5])
def test_a_loop_goes_on_where_its_state_was_taken(place: Path, n_before: int) -> None:
    """Nothing is given twice or left out, though batches are prepared ahead."""
    chips = open_chips(place)
    options: dict[str, Any] = {"batch": 8, "shuffle": True, "seed": 3, "window_shards": 2}
    whole = chips.batches(**options)
    epochs = [ids(whole), ids(whole)]
    first = chips.batches(**options)
    loop = iter(first)
    before = [ids([next(loop)]) for _ in range(n_before)]
    state = first.state_dict()
    loop.close()  # type: ignore[attr-defined] # a generator
    resumed = chips.batches(**options)
    resumed.load_state_dict(state)
    after = ids(resumed)

    assert [each for some in before for each in some] + after == epochs[0]
    assert ids(resumed) == epochs[1]


def test_a_state_of_other_chips_is_refused(place: Path) -> None:
    """It would leave chips out."""
    chips = open_chips(place)
    state = chips.batches(shuffle=True, seed=1).state_dict()

    with pytest.raises(RequestError, match="state: its seed is 1, not 2"):
        chips.batches(shuffle=True, seed=2).load_state_dict(state)
    with pytest.raises(RequestError, match="state: its window_shards is 4, not 2"):
        chips.batches(shuffle=True, seed=1, window_shards=2).load_state_dict(state)
    for label in (0, 1, 2):  # 14, 13, and 13 chips
        one = chips.where(label=label)
        state = one.batches().state_dict()
        one.batches().load_state_dict(state)
        with pytest.raises(RequestError, match="state: it is of other chips"):
            chips.where(label=(label + 1) % 3).batches().load_state_dict(state)
    with pytest.raises(RequestError, match="state: it has x, not epoch"):
        chips.batches().load_state_dict({"x": 1})


def test_a_state_is_of_all_that_decides_the_order_of_chips() -> None:
    """Other shards have another order: before, a state of the same chips gathered anew was taken.

    The batches themselves may have another size, or other bands.
    """

    def opened(*ids: str, shard_chips: int = 4) -> Any:
        return SimpleNamespace(columns={"chip": np.array(ids, object)}, shard_chips=shard_chips)

    def place_in_loop(batches: ChipBatches) -> dict[str, Any]:
        """Leave out where the loop is, which is what a state is for."""
        state = batches.state_dict()
        return {name: state[name] for name in state.keys() - {"epoch", "position"}}

    batches = ChipBatches(
        opened=opened("a", "b"),
        numbers=np.array([0, 1]),
        measurements=("red",),
        batch=1,
        seed=1,
        workers=1,
        window_shards=4,
        drop_last=False,
    )
    changes = {
        "opened": another(batches, opened=opened("a", "b", shard_chips=2)),
        "numbers": another(batches, numbers=np.array([0])),
        "measurements": alike(batches, measurements=("nir",)),
        "batch": alike(batches, batch=2),
        "seed": another(batches, seed=2),
        "workers": alike(batches, workers=2),
        "window_shards": another(batches, window_shards=2),
        "drop_last": alike(batches, drop_last=True),
        "room": alike(batches, room=np.zeros),
        "epoch": alike(batches, epoch=1),
        "position": alike(batches, position=1),
    }

    check_identity(place_in_loop, changes, fields=ChipBatches.__dataclass_fields__)
    texts = [another(batches, opened=opened(*ids)).other for ids in (("a\nb", "c"), ("a", "b\nc"))]
    assert place_in_loop(texts[0]) != place_in_loop(texts[1]) != place_in_loop(batches)


def test_drop_last_leaves_out_a_batch_that_is_not_full(place: Path) -> None:
    """And the next loop is the next epoch."""
    batches = open_chips(place).batches(batch=12, drop_last=True)

    assert [len(each["chip"]) for each in batches] == [12, 12, 12]
    assert len(batches) == 3
    assert batches.state_dict()["epoch"] == 1


def test_chips_are_split_by_a_column(place: Path) -> None:
    """A value, or several."""
    chips = open_chips(place)

    assert len(chips.where(part="test")) == 10
    assert set(chips.where(part="train", label=[0, 1]).columns["label"].tolist()) == {0, 1}
    assert set(ids(chips.where(part="test").batches(batch=3))) == {f"c{n:02}" for n in range(0, N_CHIPS, 4)}
    with pytest.raises(RequestError, match="split: there is no column split; there are chip, "):
        chips.where(split="train")


def test_chips_are_split_by_place_without_neighbours(place: Path) -> None:
    """Rows of chips lie 65 pixels apart and columns 35: parts have whole rows, or more."""
    chips = open_chips(place)
    parts = chips.split({"train": 0.6, "test": 0.4}, apart_km=40)
    lats = {name: set(part.columns["lat"].tolist()) for name, part in parts.items()}

    assert sum(map(len, parts.values())) == N_CHIPS
    assert not lats["train"] & lats["test"]
    again = chips.split({"train": 0.6, "test": 0.4}, apart_km=40)
    assert again["train"].numbers.tolist() == parts["train"].numbers.tolist()
    with pytest.raises(RequestError, match="apart_km: the chips are at 1 place, too few for these parts"):
        chips.split({"train": 0.6, "test": 0.4}, apart_km=400)
    with pytest.raises(RequestError, match="apart_km: give a distance above 0"):
        chips.split({"train": 1}, apart_km=0)
    with pytest.raises(RequestError, match="shares: give each part a share above 0"):
        chips.split({"train": 1, "test": 0}, apart_km=1)
    with pytest.raises(RequestError, match=r"shares: they add up to 1\.3; the most is 1"):
        chips.split({"train": 0.8, "test": 0.5}, apart_km=40)
    for wrong in (["train"], {"train": "0.8"}):
        with pytest.raises(RequestError, match=r"^shares: "):
            chips.split(wrong, apart_km=40)  # type: ignore[arg-type] # as a program may


def test_chips_beyond_the_shares_are_in_no_part() -> None:
    """A share of a half is half of the places, also if it is the only share."""
    found = share_out(np.arange(100), {"train": 0.5, "test": 0.25}, seed=1)

    assert {name: len(chips) for name, chips in found.items()} == {"train": 50, "test": 25}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"batch": "a"}, "batch: it is 'a'; write a whole number"),
        ({"batch": 2.5}, r"batch: it is 2\.5; write a whole number"),
        ({"shuffle": 1}, "shuffle: it is 1; write True or False"),
        ({"shuffle": True, "seed": -1}, "seed: it is -1; the least is 0"),
    ],
)
def test_wrong_arguments_of_batches_are_named(place: Path, given: dict[str, Any], said: str) -> None:
    """The error comes before a chip is read, also for tar files and parts."""
    with pytest.raises(RequestError, match=f"^{said}"):
        open_chips(place).batches(**given)


def test_places_apart_keeps_near_chips_together() -> None:
    """Whatever lies nearer than the distance has one place, across the antimeridian too."""
    rng = np.random.default_rng(2)
    lons, lats = (rng.uniform(179.5, 180.5, 300) + 180) % 360 - 180, rng.uniform(-1, 1, 300)
    places = places_apart(lons, lats, apart_km=3)
    lon, lat = np.radians(lons), np.radians(lats)
    xyz = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1) * 6371.0088
    near = np.linalg.norm(xyz[:, None] - xyz[None], axis=2) < 3

    assert (places[:, None] == places[None])[near].all()
    assert len(np.unique(places)) > 30


@pytest.mark.parametrize("seed", [None, 7])
def test_order_of_epoch_reads_few_shards_at_a_time(seed: int | None) -> None:
    """Each window has the chips of at most so many shards, and each shard is in one window."""
    chips = np.flatnonzero(np.random.default_rng(0).random(200) < 0.7)
    order = order_of_epoch(chips, shard_chips=10, window_shards=3, seed=seed, epoch=1)
    windows = [order.window(number) for number in range(order.n_windows)]

    assert sorted(order.chips.tolist()) == chips.tolist()
    shards = [set((window // 10).tolist()) for window in windows]
    assert all(1 <= len(each) <= 3 for each in shards)
    assert sum(map(len, shards)) == len(set.union(*shards))
    assert [order.window_of(0), order.window_of(len(chips) - 1)] == [0, order.n_windows - 1]
    assert (order.chips.tolist() == chips.tolist()) is (seed is None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Return what is asked for of shards: keys, and ranges of bytes. Indexes end at -1."""
    found: list[tuple[str, int, int]] = []
    get, get_range = obstore.get, obstore.get_range

    def noting(store: Any, path: str, **options: Any) -> Any:
        found.append((path, 0, -1))
        return get(store, path, **options)

    def noting_range(store: Any, path: str, *, start: int, end: int) -> Any:
        found.append((path, start, end))
        return get_range(store, path, start=start, end=end)

    monkeypatch.setattr(obstore, "get", noting)
    monkeypatch.setattr(obstore, "get_range", noting_range)
    return found


def test_an_epoch_asks_once_for_neighbours(place: Path, asked: list[tuple[str, int, int]]) -> None:
    """Each index once in all, and the chips of a shard in one request. Of few chips, only these."""
    chips = open_chips(place)
    few = chips.where(chip=[str(chips.columns["chip"][0])])
    asked.clear()
    batches = chips.batches(batch=4, shuffle=True)
    list(batches)
    n_shards = len(list((place / "band_1/c").iterdir()))

    assert len(asked) == len(set(asked)) == 2 * 2 * n_shards > 16
    asked.clear()
    list(batches)
    assert len(asked) == 2 * n_shards
    asked.clear()
    list(few.batches())
    nbytes = [stop - start for _, start, stop in asked]
    assert sorted(key for key, *_ in asked) == ["band_1/c/0/0/0/0", "band_2/c/0/0/0/0"]
    assert max(nbytes) < (place / "band_1/c/0/0/0/0").stat().st_size / 2


@pytest.mark.long
@pytest.mark.parametrize(("gap", "part"), [(0, 1), (0, 4000), (0, 10**6), (10**6, 10**6)])
def test_requests_hold_what_was_asked_for(
    place: Path, asked: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch, *, gap: int, part: int
) -> None:
    """No byte comes twice. Large requests are parted between chips, and gaps are left out or not."""
    monkeypatch.setattr(chip_pixels, "_MOST_GAP_NBYTES", gap)
    monkeypatch.setattr(chip_pixels, "_PART_NBYTES", part)
    chips = open_chips(place).where(label=[0, 2])
    expected = by_id(chips)
    asked.clear()
    for batch in chips.batches(batch=9, shuffle=True, workers=2):
        check_pixels(batch, expected)
    parts = sorted(each for each in asked if each[2] > 0)

    for (key, _, stop), (other, start, _) in pairwise(parts):
        assert key != other or stop <= start
    assert (len(parts) == 2 * len(chips)) is (part == 1)
    if part == 4000:
        assert max(stop - start for _, start, stop in parts) <= part
    n_shards = len({key for key, *_ in parts})
    assert (len(parts) == n_shards) is (gap == part)


@pytest.mark.long
@pytest.mark.parametrize("codec", ["blosc-zstd", "zstd", "none"])
def test_chips_of_every_codec_are_read(place: Path, tmp_path: Path, codec: str) -> None:
    """As zarr reads them."""
    folder = place.parent
    cube, output = tmp_path / "cube", {"codec": codec}
    gather_chips(folder / "list.csv", folder / "chips.csv", to=cube, output=output)
    chips = open_chips(cube)
    expected = by_id(chips)

    for batch in chips.batches(batch=9, shuffle=True):
        check_pixels(batch, expected)


def test_wrong_options_and_places_are_refused(place: Path, tmp_path: Path) -> None:
    """The message names what is wrong."""
    chips = open_chips(place)
    plain = gather_undrawn(
        {"sources": [str(place.parent / "1.tif")], "window": "centre"}, to=tmp_path / "one"
    )

    with pytest.raises(RequestError, match="measurements: there is no measurement red; there are band_1"):
        open_chips(place, measurements=["red"])
    with pytest.raises(RequestError, match="batch: it is 0; the least is 1"):
        chips.batches(batch=0)
    with pytest.raises(RequestError, match="holds no chips: gather it with windows, or open it by open_cube"):
        open_chips(plain.place)
    with pytest.raises(StoreError):
        open_chips(tmp_path)
    assert open_chips(place, measurements=["band_2"])[0]["pixels"].shape == (1, 3, SIDE, SIDE)


def test_chips_of_a_lost_shard_are_fill(place: Path, tmp_path: Path) -> None:
    """The receipt says that no worker has written it."""
    cube = Path(shutil.copytree(place, tmp_path / "cube"))
    receipt = Receipt.from_bytes((cube / "receipt.json").read_bytes())
    receipt = replace(receipt, shards=receipt.shards | {"band_1/c/0/0/0/0": None})
    (cube / "receipt.json").write_bytes(receipt.to_bytes())
    (cube / "band_1/c/0/0/0/0").unlink()

    lost, there = open_chips(cube)[0]["pixels"]

    assert not lost.any()
    assert there.any()


def test_a_damaged_shard_is_told(place: Path, tmp_path: Path) -> None:
    """Not given as pixels."""
    cube = Path(shutil.copytree(place, tmp_path / "cube"))
    shard = cube / "band_1/c/0/0/0/0"
    shard.write_bytes(shard.read_bytes()[:-4] + b"0000")

    with pytest.raises(StoreError, match=r"band_1/c/0/0/0/0 is damaged; pixel-gather verify says where"):
        list(open_chips(cube).batches())


def test_tensors_need_torch(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to install it."""
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(MissingExtraError, match="need torch, which is not installed: pip install torch"):
        open_chips(place).to_torch()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Put a stand-in in the place of torch, with what is used of it."""
    worker = SimpleNamespace(info=None, has_gpu=False, pinned=[])

    class Tensor:
        """Memory of torch, as NumPy finds it."""

        def __init__(self, values: Any) -> None:
            self.values = values
            self.__array_interface__ = values.__array_interface__
            self.dtype = values.dtype

        def numpy(self) -> Any:
            """Return the memory as an array, whose base is the tensor."""
            return np.asarray(self)

        def pin_memory(self) -> "Tensor":
            """Return a copy in pinned memory."""
            return empty(self.values.shape, dtype=self.dtype, pin_memory=True)

    def empty(shape: tuple[int, ...], *, dtype: Any, pin_memory: bool) -> Tensor:
        assert pin_memory
        made = Tensor(np.empty(shape, dtype))
        worker.pinned.append(made)
        return made

    torch, utils, data = (ModuleType(name) for name in ("torch", "torch.utils", "torch.utils.data"))
    torch.__spec__ = SimpleNamespace(name="torch")  # type: ignore[assignment] # what find_spec looks at
    torch.from_numpy, torch.Tensor, torch.empty = Tensor, Tensor, empty  # type: ignore[attr-defined] # a stand-in
    torch.cuda = SimpleNamespace(is_available=lambda: worker.has_gpu)  # type: ignore[attr-defined] # as above

    class IterableDataset[T]:
        """What is inherited."""

    data.IterableDataset = IterableDataset  # type: ignore[attr-defined] # as above
    data.get_worker_info = lambda: worker.info  # type: ignore[attr-defined] # as above
    for module in (torch, utils, data):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "pixel_gather.features.chips.torch_batches", raising=False)
    yield worker
    sys.modules.pop("pixel_gather.features.chips.torch_batches", None)


def test_to_torch_turns_numbers_into_tensors(place: Path, stand_in: SimpleNamespace) -> None:
    """Texts stay lists. The order, the state and the length are those of the batches."""
    chips = open_chips(place)
    tensors: Any = chips.to_torch(batch=8, shuffle=True, seed=4)
    loop = iter(tensors)
    first = next(loop)

    assert first["pixels"].values.shape == (8, 2, 3, SIDE, SIDE)
    assert not stand_in.pinned
    assert first["part"][0] in ("train", "test")
    assert len(tensors) == 5
    assert tensors.state_dict()["position"] == 8
    other: Any = chips.to_torch(batch=8, shuffle=True, seed=4)
    other.load_state_dict(tensors.state_dict())
    np.testing.assert_array_equal(next(iter(other))["pixels"].values, next(loop)["pixels"].values)
    stand_in.info = "worker 1"
    with pytest.raises(RequestError, match="leave num_workers of the DataLoader 0"):
        next(iter(chips.to_torch()))


def test_where_there_is_a_gpu_chips_are_decoded_into_pinned_memory(
    place: Path, stand_in: SimpleNamespace
) -> None:
    """The tensor is the one that torch pinned, so torch does not give its memory away while a copy runs."""
    stand_in.has_gpu = True
    chips = open_chips(place)
    tensors: Any = chips.to_torch(batch=8, shuffle=True, seed=4)
    found = list(tensors)

    for batch, expected in zip(found, chips.batches(batch=8, shuffle=True, seed=4), strict=True):
        for name in ("pixels", "status", "lon"):
            assert any(batch[name] is each for each in stand_in.pinned), name
        np.testing.assert_array_equal(batch["pixels"].values, expected["pixels"])
    tensors_given = [each for batch in found for each in batch.values() if not isinstance(each, list)]
    assert len(stand_in.pinned) == len(tensors_given)


def test_to_torch_works_with_torch_itself(place: Path) -> None:
    """In a loader, and for a map-style dataset."""
    torch = module_of_group("torch", "torch")
    chips = open_chips(place)
    expected = by_id(chips)
    batches = chips.to_torch(batch=8, shuffle=True, seed=2)
    found = list(torch.utils.data.DataLoader(batches, batch_size=None))

    assert found[0]["pixels"].shape == (8, 2, 3, SIDE, SIDE)
    assert found[0]["pixels"].dtype == torch.uint16
    for batch in found:
        for at, chip in enumerate(batch["chip"]):
            np.testing.assert_array_equal(batch["pixels"][at].numpy(), expected[chip])
    assert sorted(ids(found)) == sorted(expected)
    assert ids(found) == ids(chips.batches(batch=8, shuffle=True, seed=2))


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_workers_of_a_loader_of_torch_read_single_chips(place: Path, context: str) -> None:
    """Each process opens the cube itself."""
    torch = module_of_group("torch", "torch")
    chips = open_chips(place, measurements=["band_1"])
    expected, first = by_id(chips), chips[0]
    loader = torch.utils.data.DataLoader(
        chips, batch_size=4, num_workers=2, collate_fn=list, multiprocessing_context=context
    )
    found = [each for some in loader for each in some]

    assert len(first["pixels"]) == 1
    assert [str(each["chip"]) for each in found] == [str(each) for each in chips.columns["chip"]]
    for each in found:
        np.testing.assert_array_equal(each["pixels"], expected[str(each["chip"])][:1])


def test_a_forked_process_is_refused_rather_than_hangs(place: Path) -> None:
    """It has lost the threads that read. Loaders of torch fork by default on Linux."""
    chips = open_chips(place)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of lost threads
        pid = os.fork()
    if pid == 0:
        try:
            chips[0]
        except RequestError as error:
            os._exit(7 if 'the DataLoader multiprocessing_context="spawn"' in str(error) else 8)
        os._exit(9)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_workers_of_a_loader_of_torch_get_no_batches(place: Path) -> None:
    """Each would read everything."""
    torch = module_of_group("torch", "torch")
    loader = torch.utils.data.DataLoader(open_chips(place).to_torch(), batch_size=None, num_workers=1)

    with pytest.raises(RuntimeError, match="leave num_workers of the DataLoader 0"):  # torch makes it of ours
        next(iter(loader))


def samples(files: list[Path]) -> Iterator[dict[str, bytes]]:
    """Read tar files by the rules of WebDataset: neighbours whose names agree up to the first point."""
    for file in files:
        with tarfile.open(file) as tar:
            for key, entries in groupby(tar, key=lambda entry: entry.name.partition(".")[0]):
                yield {"key": key.encode()} | {
                    entry.name.partition(".")[2]: (tar.extractfile(entry) or io.BytesIO()).read()
                    for entry in entries
                }


def test_tar_files_of_webdataset_hold_the_chips_and_their_labels(place: Path, tmp_path: Path) -> None:
    """The samples of a part are its chips, to the bit, with all that a chip has."""
    chips = open_chips(place).where(part="train")
    files = chips.to_webdataset(tmp_path / "train.tar", chips_per_file=7)
    expected, found = by_id(chips), list(samples(files))

    assert [file.name for file in files] == [f"train-{number:06}.tar" for number in range(5)]
    assert sorted(tmp_path.iterdir()) == files
    assert len({sample["key"] for sample in found}) == len(found) == len(chips)
    for sample, chip in zip(found, map(chips.__getitem__, range(len(chips))), strict=True):
        told = json.loads(sample["json"])
        np.testing.assert_array_equal(np.load(io.BytesIO(sample["npy"])), expected[told["chip"]])
        assert (told["chip"], told["label"], told["part"]) == (chip["chip"], chip["label"], "train")
        assert told["status"] == chip["status"].tolist()
        assert told["measurements"] == ["band_1", "band_2"]
        assert told["times"][0] == "2024-01-01T00:00:00.000000"


def test_tar_files_are_not_mixed_with_older_ones(place: Path, tmp_path: Path) -> None:
    """A loader takes all numbers of a name. The name says the format, and a number is at least 1."""
    chips = open_chips(place, measurements=["band_2"])
    chips.to_webdataset(tmp_path / "a.tar")

    with pytest.raises(RequestError, match=r"a-000000\.tar exists"):
        chips.to_webdataset(tmp_path / "a.tar")
    with pytest.raises(RequestError, match=r"end the name with \.tar"):
        chips.to_webdataset(tmp_path / "a.zip")
    with pytest.raises(RequestError, match="to: the files are written to this machine: give a path"):
        chips.to_webdataset("s3://none/b.tar")
    with pytest.raises(RequestError, match="the least is 1"):
        chips.to_webdataset(tmp_path / "b.tar", chips_per_file=0)
    with pytest.raises(StoreError, match="cannot be written"):
        chips.to_webdataset(tmp_path / "none" / "b.tar")


def test_the_command_exports_chips(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The suffix chooses the format, as for other cubes. Options for rows and pictures are refused."""
    code = run("export", str(place), "--to", str(tmp_path / "a.tar"), "--measurement", "band_2")
    shown = capsys.readouterr()
    (first, *_) = samples(sorted(tmp_path.glob("*.tar")))

    assert code == 0
    assert shown.out.splitlines() == [str(file) for file in sorted(tmp_path.glob("*.tar"))]
    assert np.load(io.BytesIO(first["npy"])).shape == (1, 3, SIDE, SIDE)
    assert run("export", str(place), "--to", str(tmp_path / "b.tar"), "--where", "status == 0") == 2
    assert "leave --where and --rgb out" in capsys.readouterr().err
