"""``bench ingest``: the same bytes by every way, what is missing said, advice by what was measured."""

import json
import os
import shutil
from collections.abc import Iterator
from copy import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.loopback_server import Behaviour, Fault, LoopbackServer, run_server
from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.estimate.range_parts import Parts
from pixel_gather.io.pictures.theme import LIGHT
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.ingest.advice import (
    PATTERNS,
    advise,
    beside_the_plan,
    planned_parts,
    reads_until_download_pays,
)
from pixel_gather_bench.ingest.ingest import IngestRequest, bench_ingest, make_object, run_job
from pixel_gather_bench.ingest.job import (
    IngestJob,
    MeasuredWay,
    Read,
    WayTrial,
    measure,
    one_window_each,
    random_reads,
)
from pixel_gather_bench.ingest.mounts import _command
from pixel_gather_bench.ingest.summary import (
    NBYTES,
    Summary,
    check_contents,
    draw,
    lines_beside,
    refused_of,
    summarize,
    table_lines,
)
from pixel_gather_bench.ingest.ways import BY_NAME, WAYS, IngestObject, not_here
from pixel_gather_cli.commands.bench_ingest import bench_ingest_command
from pixel_gather_cli.main import command

CONTENT = np.random.default_rng(3).bytes(300_001)
SAMPLE = 16_384


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    """One server for all tests."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "a.bin").write_bytes(CONTENT)
    (folder / "empty.bin").write_bytes(b"")
    with run_server(folder) as running:
        yield running


def job_of(href: str, way: str, folder: Path, *, mounted: str | None = None, **stores: object) -> IngestJob:
    """Return a job that reads the object whole."""
    return IngestJob(
        way=way,
        phase="whole",
        objects=(IngestObject(href=href, nbytes=len(CONTENT), etag=None, mounted=mounted),),
        sample_nbytes=SAMPLE,
        reads=random_reads(len(CONTENT), sample_nbytes=SAMPLE, n=4),
        most_ahead=3,
        stores=StoreSettings(**stores),  # type: ignore[arg-type] # by name
        folder=str(folder),
    )


def request_of(*hrefs: str, ways: tuple[str, ...] = ("one-stream", "ahead")) -> IngestRequest:
    """Return a small request."""
    return IngestRequest(
        hrefs=hrefs,
        stores=StoreSettings(max_retries=0),
        ways=ways,
        sample_nbytes=SAMPLE,
        n_random=3,
        most_ahead=4,
        times=2,
        mount=None,
    )


def summary(name: str, **values: float | None) -> Summary:
    """Return a way's medians: a second of everything unless said otherwise."""
    seconds = ("first_sample_s", "total_s", "random_s", "first_random_s", "cpu_s", "peak_rss_mib")
    took: dict[str, Any] = dict.fromkeys(seconds, 1.0) | {"digest": "", "n_samples": 1} | values
    return Summary(way=BY_NAME[name], n_times=1, took=MeasuredWay(**took), nbytes=1_000_000)


def digests_of(job: IngestJob) -> tuple[str, str]:
    """Return what a way should have read."""
    parts = b"".join(CONTENT[read.start : read.stop] for read in job.reads)
    return xxhash.xxh3_128_hexdigest(CONTENT), xxhash.xxh3_128_hexdigest(parts)


@pytest.mark.long
@pytest.mark.parametrize(
    "way", ["one-stream", "in-parts", "one-thread", "get-object", "one-by-one", "ahead", "pipe"]
)
def test_every_way_reads_the_same_bytes_of_s3(server: LoopbackServer, tmp_path: Path, way: str) -> None:
    """In order, and at random where it can; the clock runs."""
    if way == "pipe" and shutil.which("curl") is None:
        pytest.skip("there is no curl")
    server.behave(Behaviour())
    job = job_of("s3://bucket/a.bin", way, tmp_path, endpoint=server.url, unsigned=True, region="us-east-1")

    measured = measure(job)

    whole, at_random = digests_of(job)
    assert measured.digest == whole
    assert measured.random_digest in (at_random, None)
    assert (measured.random_digest is not None) == BY_NAME[way].downloads
    assert 0 < measured.first_sample_s <= measured.total_s
    assert measured.n_samples == -(-len(CONTENT) // SAMPLE)
    assert measured.peak_rss_mib > 1


@pytest.mark.usefixtures("own_environment")
@pytest.mark.parametrize("way", ["one-stream", "one-by-one", "ahead", "gdal"])
@pytest.mark.parametrize("phase", ["whole", "random"])
def test_every_way_reads_the_same_bytes_by_http(
    server: LoopbackServer, tmp_path: Path, way: str, phase: str
) -> None:
    """GDAL's too, of an object that is no raster and ends amid a row."""
    server.behave(Behaviour())
    job = replace(job_of(f"{server.url}/a.bin", way, tmp_path), phase=phase)  # type: ignore[arg-type] # one of them

    assert measure(job).digest == digests_of(job)[phase == "random"]


@pytest.mark.long
def test_a_way_is_measured_in_a_process_of_its_own(server: LoopbackServer, tmp_path: Path) -> None:
    """Each way's module is found there; GDAL is the one with most to import."""
    server.behave(Behaviour())
    job = job_of(f"{server.url}/a.bin", "gdal", tmp_path)

    trial = run_job(job)

    assert trial.measured is not None
    assert trial.measured.digest == digests_of(job)[0]


@pytest.fixture
def in_this_process(own_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways are measured in this process, by the same function."""
    del own_environment
    monkeypatch.setattr(
        "pixel_gather_bench.ingest.ingest.run_in_child", lambda _, job, *__, **___: measure(job)
    )


@pytest.mark.parametrize("way", ["one-stream", "one-by-one", "mount"])
def test_local_files_and_mounts_are_read_too(tmp_path: Path, way: str) -> None:
    """The mounted file is read in place of the object."""
    (tmp_path / "a.bin").write_bytes(CONTENT)
    (tmp_path / "own").mkdir()
    job = job_of(f"file://{tmp_path}/a.bin", way, tmp_path / "own", mounted=str(tmp_path / "a.bin"))

    measured = measure(job)

    assert measured.digest == digests_of(job)[0]


@pytest.mark.long
@given(nbytes=st.integers(SAMPLE, 10_000_000), n=st.integers(1, 50))
def test_random_reads_lie_inside_and_are_the_same_for_every_way(nbytes: int, n: int) -> None:
    """A sample long each."""
    reads = random_reads(nbytes, sample_nbytes=SAMPLE, n=n)

    assert len(reads) == n
    assert reads == random_reads(nbytes, sample_nbytes=SAMPLE, n=n)
    assert all(read.start >= 0 and read.stop <= nbytes and read.stop - read.start == SAMPLE for read in reads)


@pytest.mark.long
@pytest.mark.usefixtures("in_this_process")
def test_bench_ingest_writes_what_was_measured_and_what_follows(
    server: LoopbackServer, tmp_path: Path
) -> None:
    """Every trial is kept; ways that are not here have their reason; the figure is in both themes."""
    server.behave(Behaviour())
    names = tuple(way.name for way in WAYS if way.name not in ("gdal", "pipe"))

    outcome = bench_ingest(request_of(f"{server.url}/a.bin", ways=names), tmp_path)

    records = json.loads((outcome.folder / "records.json").read_text())
    assert [(each["way"], each["round"]) for each in records["trials"]] == [
        (way, number) for way in ("one-stream", "one-by-one", "ahead") for number in (1, 2)
    ]
    assert set(records["not_here"]) == {
        "in-parts", "one-thread", "s5cmd", "aws-cp", "get-object", "mount", "rclone-mount", "s3fs",
        "goofys", "mount-s3",
    }  # fmt: skip
    assert {each["pattern"] for each in records["advice"]} == set(PATTERNS)
    assert "not here: whole download by s5cmd, 10 parts at a time: is for s3:// only" in outcome.text
    assert (outcome.folder / "list.txt").read_text() == f"{server.url}/a.bin\n"
    for name in ("ingest.png", "ingest.svg", "ingest-dark.png", "ingest-dark.svg", "ingest.txt"):
        assert (outcome.folder / name).stat().st_size > 100


@pytest.fixture
def without_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure, which takes seconds to write, is left out."""
    monkeypatch.setattr("pixel_gather_bench.ingest.ingest.write_figure", lambda *_, **__: iter(()))


@pytest.mark.usefixtures("in_this_process", "without_figure")
def test_of_several_objects_one_window_each_is_read(server: LoopbackServer, tmp_path: Path) -> None:
    """And only that pattern is advised on."""
    server.behave(Behaviour())
    request = request_of(f"{server.url}/1/a.bin", f"{server.url}/2/a.bin")

    outcome = bench_ingest(request, tmp_path)

    assert [each["pattern"] for each in outcome.values["advice"]] == ["one-window"]
    assert "2 objects" in outcome.text
    assert all(each["measured"]["n_samples"] == 2 for each in outcome.values["trials"])


@pytest.mark.parametrize(
    ("name", "says"),
    [("none.bin", "no such object"), ("empty.bin", "it is empty"), ("denied.bin", "refused access")],
)
def test_an_object_that_cannot_be_measured_is_refused_in_a_sentence(
    server: LoopbackServer, tmp_path: Path, name: str, says: str
) -> None:
    """Before anything is measured, and without leaving a folder."""
    server.behave(Behaviour(faults={"/denied.bin": Fault(status=403, times=9)}))

    with pytest.raises(RequestError, match=says):
        bench_ingest(request_of(f"{server.url}/{name}"), tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_an_object_smaller_than_a_sample_is_refused(server: LoopbackServer, tmp_path: Path) -> None:
    """With what to do."""
    server.behave(Behaviour())
    request = replace(request_of(f"{server.url}/a.bin"), sample_nbytes=10**6)

    with pytest.raises(RequestError, match="smaller --sample-bytes"):
        bench_ingest(request, tmp_path)


@pytest.mark.long
def test_a_way_that_fails_is_listed_and_the_others_are_measured(
    server: LoopbackServer, tmp_path: Path
) -> None:
    """The list has the message of the failed one."""
    server.behave(Behaviour())
    missing = run_job(job_of(f"{server.url}/none.bin", "one-stream", tmp_path))

    assert missing.measured is None
    assert refused_of([missing]) == {"one-stream": "the server answered with status 404"}


def test_ways_that_read_different_bytes_are_not_compared() -> None:
    """Loud, and naming who differs."""
    one = MeasuredWay(digest="a" * 32, first_sample_s=1, total_s=1, n_samples=1)
    trials = [
        WayTrial(way="one-stream", round=1, measured=one),
        WayTrial(way="gdal", round=1, measured=replace(one, digest="b" * 32)),
    ]

    check_contents(trials[:1])
    with pytest.raises(StoreError, match="aaaaaaaa by one-stream but bbbbbbbb by gdal"):
        check_contents(trials)


def put_program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program first on the PATH, in place of the real one."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(folder))


@pytest.mark.parametrize(
    ("way", "program", "options"),
    [
        ("s5cmd", "s5cmd", "--endpoint-url http://host cp --raw --concurrency 10 s3://bucket/a.bin"),
        ("aws-cp", "aws", "s3 cp --only-show-errors s3://bucket/a.bin"),
    ],
)
def test_other_programs_download_and_what_they_stored_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, program: str, options: str
) -> None:
    """They are told of the store, and where to put the object."""
    (tmp_path / "a.bin").write_bytes(CONTENT)
    own = tmp_path / "own"
    own.mkdir()
    script = f'echo "$@" > {tmp_path}/told; cp {tmp_path}/a.bin {own}/object-0'
    put_program(tmp_path, program, script, monkeypatch)

    measured = measure(job_of("s3://bucket/a.bin", way, own, endpoint="http://host"))

    assert (tmp_path / "told").read_text().startswith(f"{options} {own}/object-0")
    assert measured.digest == digests_of(job_of("s3://bucket/a.bin", way, own))[0]


def test_a_mount_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the last words of the program, and comes at once."""
    put_program(tmp_path, "s3fs", "echo first; echo the bucket does not exist >&2; exit 1", monkeypatch)

    with pytest.raises(StoreError, match="s3fs did not mount the bucket: the bucket does not exist"):
        measure(job_of("s3://bucket/a.bin", "s3fs", tmp_path))


def test_an_object_is_made_once_and_never_written_over(tmp_path: Path) -> None:
    """It has as many random bytes as asked for."""
    href = f"file://{tmp_path}/made.bin"

    assert make_object(href, 9_000_000, StoreSettings())
    content = (tmp_path / "made.bin").read_bytes()
    assert not make_object(href, 9_000_000, StoreSettings())
    with pytest.raises(RequestError, match="9,000,000 bytes is there, not of 5, and is not written over"):
        make_object(href, 5, StoreSettings())

    assert len(content) == 9_000_000
    assert len(set(content)) == 256
    assert (tmp_path / "made.bin").read_bytes() == content


def test_published_figures_stand_beside_those_measured() -> None:
    """Ways that were not measured here have a row of their own; another size is said."""
    ways = (summary("s5cmd", first_sample_s=2.5), summary("rclone-mount", random_s=0.04))

    same, other = (list(lines_beside(ways, nbytes=nbytes)) for nbytes in (NBYTES, 10))

    rows = {line.split("  ")[0].strip(): line for line in same}
    assert "2.5 | 23.1" in rows["s5cmd | s5cmd --concurrency 10"]
    assert rows["rclone-mount | -"].endswith("0.04 | -")
    assert rows["- | goofys mount"].endswith("- | 0.149")
    assert len(other) == len(same) + 1
    assert "totals cannot be compared" in " ".join(other)


def test_medians_are_taken_of_each_way() -> None:
    """Only rounds that gave a measurement count."""
    one = MeasuredWay(digest="", first_sample_s=1, total_s=2, n_samples=4)
    trials = [
        WayTrial(way="ahead", round=n, measured=replace(one, total_s=total_s))
        for n, total_s in enumerate((2, 4, 9))
    ]

    [found] = summarize([*trials, WayTrial(way="ahead", round=4, refused="no")], nbytes=8_000_000)

    assert (found.took.total_s, found.sample_s, found.mb_per_s, found.n_times) == (4, 1, 2, 3)
    assert found.took.random_s is None


@pytest.mark.parametrize(
    ("name", "nbytes", "reason"),
    [
        ("in-parts", 10, "s3:// only"),
        ("mount", 10, "--mount"),
        ("one-stream", 10**6, "bytes free"),
        ("ahead", 10**6, None),
    ],
)
def test_what_a_machine_lacks_is_said(name: str, nbytes: int, reason: str | None) -> None:
    """Nothing is dropped in silence."""
    stored = IngestObject(href="https://host/a", nbytes=nbytes, etag=None)

    said = not_here(BY_NAME[name], [stored], free_nbytes=1000)

    assert said is None if reason is None else reason in str(said)


def test_the_advice_takes_the_fastest_way_for_each_pattern() -> None:
    """What is best for one use is not for another."""
    ways = (
        summary(
            "in-parts", total_s=1.0, download_s=1.0, first_sample_s=1.0, random_s=0.001, first_random_s=1.0
        ),
        summary("ahead", total_s=1.08, first_sample_s=0.1, random_s=0.01, first_random_s=0.06),
        summary("one-by-one", total_s=9.0, first_sample_s=0.05, random_s=0.03, first_random_s=0.05),
        summary("pipe", total_s=5.0, first_sample_s=0.05, random_s=None, first_random_s=None),
    )

    found = {each.pattern: each.way for each in advise(ways, n_random=20, n_objects=1)}

    assert found == {
        "sequential": "ahead",
        "random": "ahead",
        "whole": "in-parts",
        "one-window": "one-by-one",
    }
    assert {each.pattern: each.way for each in advise(ways, n_random=1000, n_objects=1)}[
        "random"
    ] == "in-parts"
    assert reads_until_download_pays(ways) == 112


def test_ways_that_are_as_fast_are_told_apart_by_what_they_cost() -> None:
    """Five percent is noise; CPU is paid for."""
    ways = (summary("in-parts", total_s=1.0, cpu_s=2.0), summary("ahead", total_s=1.04, cpu_s=1.0))

    [found] = advise(ways, n_random=1, n_objects=1, patterns=("whole",))

    assert found.way == "ahead"


def test_no_advice_where_nothing_was_measured() -> None:
    """A pipe knows no random reads."""
    assert advise([summary("pipe", random_s=None)], n_random=1, n_objects=1, patterns=("random",)) == ()


@pytest.mark.parametrize(
    ("nbytes", "ahead_s", "says"),
    [
        (256_000_000, 0.2, "side by side is 5.00 times as fast, as the plan has it"),
        (256_000_000, 4.0, "a single stream is 4.00 times as fast, NOT as the plan has it"),
        (400_000, 4.0, "a single stream is 4.00 times as fast, as the plan has it"),
        (400_000, 1.0, "side by side as fast as a single stream"),
    ],
)
def test_what_the_plan_would_do_stands_beside_what_was_measured(
    nbytes: int, ahead_s: float, says: str
) -> None:
    """It does so even if the two disagree."""
    ways = (summary("one-stream"), summary("ahead", total_s=ahead_s))
    href = "s3://bucket/key"
    parts = planned_parts(nbytes, href=href, n_in_flight=1)

    assert says in beside_the_plan(ways, parts, nbytes=nbytes, href=href, n_objects=1)


def test_a_local_file_is_planned_in_single_ranges() -> None:
    """Gathers read local files in the same way."""
    assert planned_parts(10**9, href="file:///a", n_in_flight=1) == Parts()


def test_table_and_figure_show_every_way() -> None:
    """A way without random reads is shown, too, and its place says so."""
    ways = [summary("one-stream", total_s=30.0), summary("pipe", random_s=None, first_random_s=None)]

    text = "\n".join(table_lines(ways, n_objects=1))
    figure = draw(ways, LIGHT, n_objects=1)

    assert all(way.way.title in text for way in ways)
    assert len(figure.axes) == 6
    assert "none: it only goes forward" in str([each.get_text() for ax in figure.axes for each in ax.texts])


@pytest.mark.long
@pytest.mark.usefixtures("without_figure")
def test_command_prints_json_for_machines(tmp_path: Path) -> None:
    """Results on standard output, the folder on standard error."""
    (tmp_path / "a.bin").write_bytes(CONTENT)
    arguments = [
        "--way",
        "one-by-one",
        "--times",
        "1",
        "--sample-bytes",
        "10000",
        "--json",
        "--to",
        str(tmp_path / "out"),
    ]

    done = CliRunner().invoke(bench_ingest_command, [str(tmp_path / "a.bin"), *arguments])

    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["ways"][0]["way"]["name"] == "one-by-one"
    assert "results in" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ([], "OBJECT"),
        (["a", "--sources", "b"], "OBJECT"),
        (["ftp://a/b"], "OBJECT"),
        (["a", "b", "--pattern", "whole"], "--pattern"),
        (["a", "--mount", "/nowhere/at/all"], "--mount"),
        (["a", "b", "--mount", "c"], "--mount"),
    ],
)
def test_command_refuses_what_it_cannot_measure(arguments: list[str], field: str) -> None:
    """Naming the option, as the whole program does."""
    done = CliRunner().invoke(command, ["bench", "ingest", *arguments])

    assert isinstance(done.exception, RequestError)
    assert done.exception.field == field


def test_a_mount_of_something_else_is_refused(tmp_path: Path) -> None:
    """Its times would stand beside the object's, and its contents are compared too late or not at all."""
    (tmp_path / "a.bin").write_bytes(bytes(64))
    (tmp_path / "b.bin").write_bytes(bytes(32))
    arguments = [str(tmp_path / "a.bin"), "--mount", str(tmp_path / "b.bin"), "--sample-bytes", "8"]

    done = CliRunner().invoke(bench_ingest_command, [*arguments, "--to", str(tmp_path / "out")])

    assert isinstance(done.exception, RequestError)
    assert "b.bin has 32 bytes, the object 64" in str(done.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("error")
def test_a_way_that_took_no_time_has_a_place_in_the_figure() -> None:
    """Cached and tiny, a sample may be there within a tick of the clock; nothing warns."""
    figure = draw([summary("one-by-one", first_sample_s=0.0)], LIGHT, n_objects=1)

    assert figure.axes[0].get_xlim() == (0, 1)


def test_the_advice_does_not_call_a_faster_way_the_next_best() -> None:
    """Where an early first sample decides between equals, the other may be there sooner in all."""
    ways = (
        summary("ahead", total_s=1.0, first_sample_s=0.5),
        summary("pipe", total_s=1.05, first_sample_s=0.1),
    )

    [found] = advise(ways, n_random=1, n_objects=1, patterns=("sequential",))

    assert found.way == "pipe"
    assert "ahead, as good as equal, 0.95 times as long" in found.why


def test_a_window_of_each_object_is_in_its_middle() -> None:
    """Whole where the object is shorter than a sample."""
    objects = tuple(IngestObject(href="", nbytes=nbytes, etag=None) for nbytes in (100, 10))

    assert one_window_each(objects, sample_nbytes=20) == (
        Read(index=0, start=40, stop=60),
        Read(index=1, start=0, stop=10),
    )


MOUNTPOINT_OPTIONS = (
    "--endpoint-url http://host --no-sign-request --profile me --requester-pays --force-path-style"
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("goofys", "goofys -f -o ro --endpoint http://host --profile me --requester-pays bucket MOUNT"),
        ("mount-s3", f"mount-s3 -f --read-only {MOUNTPOINT_OPTIONS} bucket MOUNT"),
    ],
)
def test_mounts_are_told_of_the_store(way: str, words: str) -> None:
    """Each in its own options."""
    stores: dict[str, Any] = {"endpoint": "http://host", "unsigned": True, "profile": "me"}
    job = job_of("s3://bucket/a.bin", way, Path(), requester_pays=True, **stores)

    [program, *others], _ = _command(job, Path("MOUNT"))

    assert " ".join((Path(program).name, *others)) == words
