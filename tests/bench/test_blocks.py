"""``pixel-gather bench blocks``: sizes, codecs, processes, figures and what is left behind."""

import json
import math
from collections.abc import Mapping
from copy import replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zarr
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from pixel_gather.core.errors import GatherError, RequestError, StoreError
from pixel_gather.features.gather import shards_in_flight
from pixel_gather.io.pictures.theme import LIGHT
from pixel_gather.io.store.object_store import open_place
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.blocks.blocks import BlocksReport, join_reports, put_records
from pixel_gather_bench.blocks.figures import draw_sweep
from pixel_gather_bench.blocks.pixels import BlockPixels, as_floats, copy_cube, make_field
from pixel_gather_bench.blocks.share import BlockJob, WriteAnswer, describe, load, read, write
from pixel_gather_bench.blocks.sweep import (
    CODECS,
    DEFAULT_CODEC,
    SWEEPS,
    WRITES_IN_FLIGHT,
    BlockRecord,
    BlockResult,
    BlockSetting,
    Sweep,
    curve,
    cut_blocks,
    default_layout,
    is_default,
    left_out,
    list_settings,
)
from pixel_gather_bench.blocks.text import take_medians, verdicts
from pixel_gather_bench.blocks.trial import Trials
from pixel_gather_bench.child import RunCrashedError
from pixel_gather_cli.commands.bench_blocks import bench_blocks_command
from support.counted_s3 import REGION, s3_with

SHAPE = (24, 40, 56)
SWEEP = Sweep(
    codecs=CODECS,
    sweeps=("sizes", "in-flight", "workers"),
    sizes_mb=(0.002, 0.02),
    in_flight=(1, 4),
    workers=(1, 2),
    zfp_tolerance=0.01,
)


def in_this_process(_: str, jobs: Mapping[str, BlockJob], answer: type[Any]) -> list[Any]:
    """Do jobs one after the other, without a process for each."""
    work = write if answer is WriteAnswer else read
    return [work(job, load(job)) for job in jobs.values()]


def crashing(_: str, jobs: Mapping[str, BlockJob], __: type[Any]) -> list[Any]:
    """End as a process without memory does."""
    raise RunCrashedError(f"{next(iter(jobs))}: its process was ended by SIGKILL")


@pytest.fixture
def reads_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices and series are read twice, and not for 0.4 s."""
    monkeypatch.setattr("pixel_gather_bench.blocks.share._LONGEST_S", 0.0)


def settings(
    dtype: str = "uint16", sweep: Sweep = SWEEP, shape: tuple[int, int, int] = SHAPE
) -> list[BlockSetting]:
    """Return the settings of a small sweep."""
    return list_settings(sweep, {codec: (shape, "float32" if codec == "zfp" else dtype) for codec in CODECS})


def pixels_in(folder: Path, dtype: str) -> BlockPixels:
    """Write a smooth small cube with a little noise."""
    row, y, x = np.indices(SHAPE)
    noise = np.random.default_rng(1).integers(0, 50, SHAPE)
    values = (1000 + 10 * row + 3 * y + 5 * x + noise).astype(dtype) / (7 if dtype == "float32" else 1)
    file = folder / f"{dtype}.npy"
    np.save(file, values.astype(dtype))
    return BlockPixels(file=file, shape=SHAPE, dtype=dtype, about="smooth")


def result(speed: float = 1.0, **others: float) -> BlockResult:
    """Return a result whose four speeds are equal unless they are given."""
    values = dict.fromkeys(("write_mb_per_s", "whole_mb_per_s", "slices_per_s", "series_per_s"), speed)
    rest = dict.fromkeys(
        ("write_cpu_s_per_gb", "whole_cpu_s_per_gb", "ratio", "largest_error", "peak_rss_mib"), 1.0
    )
    return BlockResult(**values | rest | others)


def invoke(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(bench_blocks_command, [*arguments, "--quiet"])


@given(
    shape=st.tuples(st.integers(1, 3000), st.integers(1, 700), st.integers(1, 700)),
    itemsize=st.sampled_from([1, 2, 4, 8]),
    block_nbytes=st.integers(500, 50_000_000),
)
def test_layout_of_has_blocks_of_the_wanted_size(
    shape: tuple[int, int, int], itemsize: int, block_nbytes: int
) -> None:
    """A block is within a factor of 2 of what is wanted, or all there is; blocks divide their shard."""
    layout = cut_blocks(block_nbytes, shape, itemsize=itemsize)

    nbytes = math.prod(layout.chunk) * itemsize
    assert nbytes <= 2 * block_nbytes
    assert nbytes >= min(block_nbytes / 2, math.prod(shape) * itemsize / 2)
    assert all(whole % part == 0 for whole, part in zip(layout.shard, layout.chunk, strict=True))


@pytest.mark.parametrize("size_mb", [0.64, 1.3, 2.5, 5, 10, 20, 50])
@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_layout_of_keeps_the_plans_shards_where_they_hold_a_block(size_mb: float, dtype: str) -> None:
    """What differs along the curve is the block, not the object: those stay between 1/2 and 3/2 of 32 MiB."""
    itemsize = np.dtype(dtype).itemsize

    layout = cut_blocks(round(size_mb * 1e6), (1000, 512, 512), itemsize=itemsize)

    shard_nbytes = math.prod(layout.shard) * itemsize
    assert 16 * 2**20 <= shard_nbytes <= max(48 * 2**20, 1.5 * size_mb * 1e6)
    assert math.prod(layout.chunk) * itemsize == pytest.approx(size_mb * 1e6, rel=0.1)


def test_defaults_are_those_of_the_product() -> None:
    """What is marked as the default is what a request without a word of layout or codec gets."""
    marked = [each for each in settings() if is_default(each) and each.codec == DEFAULT_CODEC]

    assert DEFAULT_CODEC == "blosc-lz4"
    assert shards_in_flight.FEWEST == WRITES_IN_FLIGHT
    assert zarr.config.get("async.concurrency") == marked[0].reads_in_flight
    assert [each.layout for each in marked] == [default_layout(SHAPE, itemsize=2)]


@pytest.mark.parametrize("sweep", ["sizes", "in-flight", "workers"])
def test_curve_varies_one_thing(sweep: str) -> None:
    """Beside the default, a curve's settings differ from each other in what its axis shows alone."""
    points = curve(
        settings(shape=(2000, 512, 512), sweep=replace(SWEEP, sizes_mb=(0.64, 2.5))), sweep, "zstd"
    )

    varied: dict[str, set[Any]] = {
        "sizes": {each.chunk for each in points},
        "in-flight": {(each.writes_in_flight, each.reads_in_flight) for each in points},
        "workers": {each.n_workers for each in points},
    }
    assert {name: len(values) for name, values in varied.items()} == dict.fromkeys(varied, 1) | {
        sweep: len(points)
    }
    assert len(points) >= 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("codec", "dtype"), [*product(CODECS, ["float32"]), *product(CODECS[:-1], ["uint16"])]
)
@pytest.mark.usefixtures("reads_briefly")
def test_trial_gives_back_every_codecs_pixels_and_leaves_nothing(
    codec: str, dtype: str, tmp_path: Path
) -> None:
    """All sizes of all codecs are read as written, zfp within its tolerance; the place is gone."""
    trials = trials_in(tmp_path, run_together=in_this_process)
    points = [each for each in settings(dtype) if each.codec == codec]

    found = [trials.measure(each) for each in points]

    assert len(found) == len(points) >= 4
    assert all((each.ratio <= 1) == (codec == "none") for each in found)
    errors = [each.largest_error for each in found]
    assert all(0 < error <= 0.01 for error in errors) if codec == "zfp" else errors == [0.0] * len(errors)
    assert not (tmp_path / "cubes").exists()


def test_read_tells_the_largest_error(tmp_path: Path) -> None:
    """The error is measured, not repeated from what was asked for: pixels that differ by 3 are 3 off."""
    setting = next(each for each in settings() if each.codec == "zfp")
    job = job_of(setting, tmp_path)
    pixels = load(job)
    describe(open_place(job.place, job.stores), setting)
    write(job, pixels)
    pixels[5, 7, 9] += 3

    found = read(job, pixels)

    assert found.largest_error == pytest.approx(3, abs=0.02)


def test_read_refuses_other_pixels_of_a_lossless_codec(tmp_path: Path) -> None:
    """A speed is worth nothing where the pixels are wrong."""
    setting = next(each for each in settings() if each.codec == "zstd")
    job = job_of(setting, tmp_path)
    pixels = load(job)
    describe(open_place(job.place, job.stores), setting)
    write(job, pixels)
    pixels[0, 0, 0] += 1

    with pytest.raises(StoreError, match="zstd gave other pixels back"):
        read(job, pixels)


def test_workers_share_all_shards() -> None:
    """Every shard is written by exactly one process, and every row read by one."""
    setting = replace(settings()[0], shape=(23, 40, 56), shard=(4, 40, 56), chunk=(2, 40, 56), n_workers=4)
    jobs = [replace(job_of(setting, Path()), worker=worker) for worker in range(4)]

    assert [index for job in jobs for index in job.shards] == list(range(6))
    assert [row for job in jobs for row in range(23)[job.rows]] == list(range(23))
    assert msgspec.json.decode(msgspec.json.encode(jobs[1]), type=BlockJob) == jobs[1]


def test_a_process_that_dies_is_told_with_what_to_change(tmp_path: Path) -> None:
    """The sentence names the measurement and the options that make it smaller."""
    trials = trials_in(tmp_path, run_together=crashing)

    with pytest.raises(GatherError, match=r"worker 1 of 1 \(none, blocks of .* SIGKILL; try fewer --workers"):
        trials.measure(settings()[0])


def test_verdicts_compare_the_default_with_the_best_compromise() -> None:
    """The share is that of the geometric means; ways are compared one by one as well."""
    default, *others = curve(settings(), "sizes", "none")
    records = [BlockRecord(setting=default, round_index=n, result=result(2)) for n in range(3)]
    records += [BlockRecord(setting=each, round_index=0, result=result(1)) for each in others]
    records[-1] = replace(records[-1], result=result(4, series_per_s=1))

    found = verdicts(take_medians(records))

    assert [each.codec for each in found] == ["none"]
    assert found[0].best == others[-1]
    assert found[0].share == pytest.approx(2 / 4**0.75)
    assert found[0].shares == {
        "write_mb_per_s": 0.5,
        "whole_mb_per_s": 0.5,
        "slices_per_s": 0.5,
        "series_per_s": 1.0,
    }


def test_medians_are_taken_over_rounds() -> None:
    """One slow round changes nothing."""
    setting = settings()[0]

    medians = take_medians(
        [
            BlockRecord(setting=setting, round_index=n, result=result(speed))
            for n, speed in enumerate((5, 1, 6))
        ]
    )

    assert medians[setting].write_mb_per_s == 5


@pytest.mark.parametrize("sweep", ["sizes", "in-flight", "workers"])
def test_draw_sweep_marks_the_default_in_every_panel(sweep: str) -> None:
    """Each panel has a line for each codec and one star for the plan's default."""
    every = settings(shape=(2000, 512, 512))
    medians = {each: result(1 + place) for place, each in enumerate(every)}

    figure = draw_sweep(medians, sweep, CODECS, LIGHT)

    assert "rests on docs/decisions/0003" in figure.get_supxlabel().replace("\n", " ")
    for ax in figure.axes:
        labels = ax.get_legend_handles_labels()[1]
        assert labels.count("the plan's default") == 1
        assert [label.partition(",")[0] for label in labels if label != "the plan's default"] == list(CODECS)
        assert ax.get_xlabel()
        assert ax.get_ylabel() in {"MB/s", "slices/s", "series/s"}


def test_draw_sweep_leaves_room_above_speeds_that_hardly_differ() -> None:
    """A mark at the upper edge would be cut in half."""
    medians = {each: result(100 + place / 100) for place, each in enumerate(settings())}

    figure = draw_sweep(medians, "sizes", CODECS, LIGHT)

    for ax in figure.axes:
        assert ax.get_ylim()[0] == 0
        assert ax.get_ylim()[1] > 110


@pytest.mark.long
def test_field_is_the_same_at_every_call(tmp_path: Path) -> None:
    """Two machines write the same pixels; floats are what the numbers mean."""
    first = make_field(tmp_path / "a.npy", dtype="uint16", total_mb=2)
    second = make_field(tmp_path / "b.npy", dtype="uint16", total_mb=2)
    floats = make_field(tmp_path / "c.npy", dtype="float32", total_mb=4)

    numbers = np.load(first.file)
    assert first.shape == (4, 512, 512)
    np.testing.assert_array_equal(numbers, np.load(second.file))
    np.testing.assert_allclose(np.load(floats.file), numbers * 2.75e-5 - 0.2, atol=2e-5)


@pytest.mark.usefixtures("reads_briefly")
def test_trial_joins_what_several_processes_did(tmp_path: Path) -> None:
    """They write and read disjoint shards of one cube, each its own rows."""
    default = next(each for each in settings() if each.codec == "zstd" and is_default(each))

    found = trials_in(tmp_path, run_together=in_this_process).measure(
        replace(default, chunk=(4, 40, 56), shard=(12, 40, 56), n_workers=2)
    )

    assert found.largest_error == 0
    assert found.slices_per_s > 0
    assert not (tmp_path / "cubes").exists()


@pytest.mark.long
def test_command_measures_in_processes_and_cleans_up(tmp_path: Path) -> None:
    """The folder has records, text and figures; cubes and pixels are gone; the JSON is what was measured."""
    ran = invoke(
        *("--codecs", "zfp", "--sizes", "0.2", "--sweeps", "sizes", "--total-mb", "1", "--times", "1"),
        *("--to", str(tmp_path), "--json"),
    )

    assert ran.exit_code == 0, ran.output
    (folder,) = tmp_path.iterdir()
    names = {each.name for each in folder.iterdir()}
    figures = {f"blocks-sizes{theme}.{kind}" for theme in ("", "-dark") for kind in ("png", "svg")}
    assert names == {"blocks.json", "blocks.txt"} | figures
    values = json.loads((folder / "blocks.json").read_text())
    assert json.loads(ran.stdout) == values
    assert [each["setting"]["dtype"] for each in values["records"]] == ["float32"] * 2
    assert "made for this benchmark" in (folder / "blocks.txt").read_text()


def test_command_joins_earlier_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that were measured one by one come into one table, and nothing is measured again."""
    monkeypatch.setattr("pixel_gather_bench.blocks.blocks.write_figures", lambda *_: None)
    for codec in ("none", "zstd"):
        (tmp_path / codec).mkdir()
        put_records(tmp_path / codec, report_of(codec))

    ran = invoke(
        "--from", str(tmp_path / "none"), "--from", str(tmp_path / "zstd"), "--to", str(tmp_path / "all")
    )

    assert ran.exit_code == 0
    assert "none, uint16" in ran.stdout
    assert "zstd, uint16" in ran.stdout


def test_joined_refuses_another_machines_run(tmp_path: Path) -> None:
    """Speeds of two machines on one curve would tell of the machines."""
    for name, cores in (("a", 2), ("b", 64)):
        (tmp_path / name).mkdir()
        put_records(tmp_path / name, replace(report_of("none"), machine={"cpu": "x", "cores": cores}))

    with pytest.raises(RequestError, match="it is of another machine"):
        join_reports([tmp_path / "a", tmp_path / "b"])


def test_joined_refuses_other_pixels_of_one_codec(tmp_path: Path) -> None:
    """A curve through cubes of different sizes would tell of the sizes."""
    report = report_of("none")
    taller = tuple(
        replace(each, setting=replace(each.setting, shape=(240, *SHAPE[1:]))) for each in report.records
    )
    for name, records in (("a", report.records), ("b", taller)):
        (tmp_path / name).mkdir()
        put_records(tmp_path / name, replace(report, records=records))

    with pytest.raises(RequestError, match="differ in --total-mb"):
        join_reports([tmp_path / "a", tmp_path / "b"])


def test_copy_cube_takes_the_first_rows(tmp_path: Path) -> None:
    """With a cube the pixels are real, as many rows as are asked for; zfp gets no more bytes as floats."""
    group = zarr.create_group(tmp_path / "cube.zarr")
    red = np.arange(6 * 100 * 100, dtype="uint16").reshape(6, 100, 100)
    group.create_array("red", data=red)
    group.create_array("time", data=np.arange(6))

    copied = copy_cube(
        tmp_path / "a.npy", f"file://{tmp_path}/cube.zarr", name=None, settings=StoreSettings(), total_mb=0.1
    )
    floats = as_floats(copied, tmp_path / "b.npy")

    np.testing.assert_array_equal(np.load(copied.file), red[:5])
    np.testing.assert_array_equal(np.load(floats.file), red[:2].astype("float32"))
    assert "the first 5 rows of red of file://" in copied.about
    with pytest.raises(RequestError, match="no measurement blue"):
        copy_cube(
            tmp_path / "c.npy",
            f"file://{tmp_path}/cube.zarr",
            name="blue",
            settings=StoreSettings(),
            total_mb=1,
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--codecs", "gzip"), "'gzip' is not one of none, zstd"),
        (("--sizes", "0"), "sizes: 0 is not above 0 and at most 500"),
        (("--sizes", "a"), "'a' is not MB,..."),
        (("--workers", "1000"), "workers: 1000 is not above 0"),
        (("--in-flight", "-1"), "in-flight: -1 is not above 0"),
        (("--sweeps", "speed"), "'speed' is not one of sizes"),
        (("--place", "https://example.org/x"), "nothing is written to web servers"),
        (("--from", "nowhere"), "nowhere: no blocks.json of bench blocks can be read there"),
        (("--cube", "nowhere.zarr"), "cube: no cube can be read at file://"),
    ],
)
def test_command_refuses_with_a_sentence(
    arguments: tuple[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad options name themselves; nothing is measured."""
    monkeypatch.chdir(tmp_path)

    ran = invoke(*arguments, "--total-mb", "1")

    assert ran.exit_code != 0
    assert said in (ran.output if isinstance(ran.exception, SystemExit) else str(ran.exception))
    assert isinstance(ran.exception, (SystemExit, GatherError))


@pytest.mark.long
@pytest.mark.usefixtures("reads_briefly")
def test_trial_on_s3_deletes_what_it_wrote_and_nothing_else(tmp_path: Path) -> None:
    """A bucket that holds other things holds only them afterwards; one that is missing is told of."""
    with s3_with("bench-blocks") as s3:
        s3.client.put_object(Bucket="bench-blocks", Key="scratch/another", Body=b"1")
        trials = replace(
            trials_in(tmp_path, run_together=in_this_process),
            place="s3://bench-blocks/scratch/cubes",
            stores=StoreSettings(endpoint=s3.endpoint, region=REGION),
        )

        found = trials.measure(settings()[0])

        assert found.largest_error == 0
        assert [each["Key"] for each in s3.client.list_objects_v2(Bucket="bench-blocks")["Contents"]] == [
            "scratch/another"
        ]
        with pytest.raises(StoreError, match="the cube could not be written"):
            replace(trials, place="s3://nowhere/cubes").measure(settings()[0])


@pytest.mark.long
def test_command_refuses_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A file where the folder should be is told of before pixels are made, and nothing stays."""
    (tmp_path / "file").write_text("x")

    ran = invoke(
        "--place", str(tmp_path / "file" / "below"), "--total-mb", "1", "--to", str(tmp_path / "out")
    )

    assert isinstance(ran.exception, GatherError)
    assert "cannot be written to" in str(ran.exception)
    assert "1 of " not in ran.output
    assert not list((tmp_path / "out").iterdir())


def test_left_out_says_what_the_pixels_are_too_few_for() -> None:
    """What was asked for and is missing in the table is told of, once for all codecs."""
    sweep = Sweep(
        codecs=("none", "zstd"),
        sweeps=SWEEPS,
        sizes_mb=(0.5, 50.0),
        in_flight=(1,),
        workers=(1, 64),
        zfp_tolerance=0.0,
    )
    pixels = dict.fromkeys(sweep.codecs, ((8, 512, 512), "uint16"))

    sizes, workers = left_out(sweep, pixels)

    assert sizes == "blocks of 50 MB are left out: the pixels fill none; give a larger --total-mb"
    assert workers.startswith(
        "worker processes 64 are left out: a process needs a shard, and the pixels fill "
    )
    assert left_out(replace(sweep, sweeps=("in-flight",)), pixels) == []


def trials_in(folder: Path, **others: Any) -> Trials:
    """Return what measures small cubes in a folder."""
    return Trials(
        place=f"file://{folder}/cubes",
        stores=StoreSettings(),
        pixels_of=lambda setting: pixels_in(folder, setting.dtype),
        **others,
    )


def job_of(setting: BlockSetting, folder: Path) -> BlockJob:
    """Return the only worker's job."""
    pixels = pixels_in(folder, setting.dtype) if folder != Path() else None
    return BlockJob(
        setting=setting,
        worker=0,
        place=f"file://{folder}/cube",
        pixels=str(pixels.file) if pixels else "",
        stores=StoreSettings(),
    )


def report_of(codec: str) -> BlocksReport:
    """Return a report of one measurement of each setting of a codec."""
    return BlocksReport(
        machine={"cpu": "x", "cores": 2},
        pixels=("made up",),
        places=("file:///tmp",),
        records=tuple(
            BlockRecord(setting=each, round_index=0, result=result())
            for each in curve(settings(), "sizes", codec)
        ),
    )


def test_text_says_that_one_round_is_noise() -> None:
    """Rounds differ by more than most blocks do; of three rounds there are medians."""
    once = report_of("none")
    again = tuple(replace(each, round_index=n) for each in once.records for n in range(3))

    assert "ONE ROUND IS NOISE" in once.to_text()
    assert "ONE ROUND" not in replace(once, records=again).to_text()
