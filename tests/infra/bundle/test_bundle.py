"""The Lambda packages are small, reproducible, and read what the unpruned libraries read."""

import hashlib
import json
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from obstore.store import LocalStore

import infra
from handlers.openapi.document import openapi_document
from infra.bundle.bundle import (
    FUNCTIONS,
    LARGEST_NBYTES,
    _forget_old,
    _kept,
    bundle,
    runtime,
    unzipped_nbytes,
)
from infra.bundle.elf import segments_of
from infra.bundle.wheels import BundleError, locked_requirements
from pixel_gather.features.catalog.catalog_writer import write_search_files
from pixel_gather.io.scenes.spooled_items import SpooledItems
from scenes.scenes import item
from support.api_bridge import event
from support.lambda_functions import ENVIRONMENT, handler_module
from support.undrawn import gather_undrawn

HERE: Final = platform.machine()
DATA: Final = Path(__file__).parents[2] / "data"
PROBE: Final = Path(__file__).with_name("bundle_probe.py")
DRAWING_PROBE: Final = Path(__file__).with_name("bundle_drawing_probe.py")
BARE_PYTHON: Final = str(Path(sys.executable).resolve())
"""The interpreter of the virtual environment, without its packages."""

FROM_FOLDERS: Final = """\
import runpy, sys
sys.path[:0] = sys.argv.pop(1).split(":")
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""

ENTRIES: Final = (
    ("submit", ("submit",)),
    ("status", ("status",)),
    ("plan", ("plan_gather", "dry_run", "rank", "answer_tables", "plan_table", "read_images")),
    ("finish", ("finish_gather",)),
)
"""Packages, and the modules of ``handlers`` that are their entry points.

Tests below import those of the search and of the worker, too.
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the packages run on Linux only")


@pytest.mark.long
@pytest.mark.timeout(900)  # it builds them all, where no other test has
def test_bundle_of_every_function_fits_in_lambda() -> None:
    """Each is below 240 MB unzipped. The sizes are printed."""
    sizes = {name: unzipped_nbytes(bundle(name, machine="aarch64", is_emulated=False)) for name in FUNCTIONS}

    print("".join(f"\n{name}: {nbytes / 1e6:.1f} MB unzipped" for name, nbytes in sizes.items()))  # noqa: T201 # `pytest -s` shows them
    assert max(sizes.values()) < LARGEST_NBYTES, sizes


@pytest.mark.long
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bundle_has_every_library_that_its_own_are_linked_to(function: str) -> None:
    """Only libraries of glibc, GCC and zlib, which Amazon Linux 2023 has, may be missing."""
    folder = bundle(function, machine="aarch64", is_emulated=False)
    libraries = [path for path in folder.rglob("*.so*") if path.read_bytes()[:4] == b"\x7fELF"]

    wanted = {name for path in libraries for name in linked_to(path.read_bytes())}
    missing = wanted - {path.name for path in libraries}

    assert {re.sub(r"\.so.*", "", name) for name in missing} <= {
        "ld-linux-aarch64", "libc", "libdl", "libgcc_s", "libm", "libpthread", "librt", "libstdc++", "libz",
    }  # fmt: skip
    assert {path.read_bytes()[18] for path in libraries} <= {183}


@pytest.mark.long
def test_bundle_holds_no_sdk_no_tests_and_no_command_line() -> None:
    """Lambda's own modules and files for developers are left out."""
    folder = bundle("plan", machine="aarch64", is_emulated=False)
    names = {path.relative_to(folder).parts[0] for path in folder.rglob("*")}

    assert "pixel_gather" in names
    assert names.isdisjoint({"boto3", "botocore", "s3transfer", "bin", "pixel_gather_cli", ".lock"})
    assert not [path for path in folder.rglob("tests") if path.is_dir()]


@pytest.mark.long
@pytest.mark.parametrize(("function", "is_emulated"), [("plan", False), ("submit", True)])
def test_bundle_made_twice_has_the_same_bytes(tmp_path: Path, function: str, is_emulated: bool) -> None:  # noqa: FBT001 # a parameter
    """Contents, modes and times do not depend on the build. So CDK's hash does not change."""
    first = bundle(function, machine="aarch64", is_emulated=is_emulated)
    second = bundle(function, machine="aarch64", is_emulated=is_emulated, below=tmp_path / "the other")

    assert first.name == second.name
    assert listing(first) == listing(second)


def test_bundle_is_made_once_by_all_who_ask_for_it_at_a_time(tmp_path: Path) -> None:
    """A second process waits for the first one's bundle."""
    made = []

    def make(folder: Path) -> None:
        time.sleep(0.1)
        folder.mkdir()
        made.append(folder)

    with ThreadPoolExecutor() as threads:
        folders = {*threads.map(lambda _: _kept(tmp_path, "plan", [b"parts"], make), range(4))}

    assert len(folders) == len(made) == 1


@pytest.mark.slow
def test_bundle_is_made_anew_when_a_module_that_makes_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed builder gets another folder, so that no earlier bundle is used."""
    here = Path(infra.__path__[0]) / "bundle"
    maker = tmp_path / "maker"
    maker.mkdir()
    modules = {path.name: path.read_bytes() for path in here.glob("*.py")}
    for name, content in modules.items():
        (maker / name).write_bytes(content)
    monkeypatch.setattr("infra.bundle.bundle._HERE", maker)

    def made() -> str:
        return _kept(tmp_path / "bundles", "x", [b"part"], Path.mkdir).name

    names = [made()]
    for name, content in modules.items():
        (maker / name).write_bytes(content + b"# changed")
        names.append(made())
        (maker / name).write_bytes(content)

    assert {"bundle.py", "elf.py", "expat.py", "pruning.py", "wheels.py"} <= modules.keys()
    assert len(set(names)) == len(names)
    assert made() == names[0]


@pytest.mark.long
def test_bundle_has_compiled_all_its_modules_for_var_task() -> None:
    """A cold start compiles nothing. Tracebacks have the paths of Lambda."""
    folder = bundle("submit", machine="aarch64", is_emulated=False)
    sources = {path.relative_to(folder) for path in folder.rglob("*.py")}
    compiled = {path.relative_to(folder) for path in folder.rglob("*.pyc")}

    assert {path.parent.parent / path.name.replace(".cpython-313.pyc", ".py") for path in compiled} == sources
    for path in compiled:
        content = (folder / path).read_bytes()
        assert content[4:8] == b"\x01\0\0\0"  # by hash, unchecked
        assert b"/var/task/" in content
        assert str(Path(infra.__path__[0]).parent).encode() not in content


@pytest.mark.long
def test_bundle_for_the_emulator_names_its_wheels(tmp_path: Path) -> None:
    """It has our code. So the emulator neither uploads nor unpacks hundreds of megabytes."""
    folder = bundle("submit", machine="aarch64", is_emulated=True, below=tmp_path)
    wheels = tmp_path / (folder / "wheels").read_text()
    on_aws = bundle("submit", machine="aarch64", is_emulated=False, below=tmp_path)

    in_wheels, in_package = (names_in(each) for each in (wheels, folder))
    assert in_wheels | in_package - {"bootstrap", "emulated_runtime", "wheels"} == names_in(on_aws)
    assert {"pydantic", "pydantic_core"} <= in_wheels
    assert in_package == {"bootstrap", "emulated_runtime", "handlers", "pixel_gather", "wheels"}
    assert unzipped_nbytes(folder) < 10_000_000
    assert json.loads((folder / "handlers/api/openapi.json").read_bytes()) == openapi_document()


def test_bundle_that_is_used_again_is_not_old(tmp_path: Path) -> None:
    """Otherwise, old wheels would be removed right before a new package is made of them."""

    def kept() -> float:
        return _kept(tmp_path, "plan-wheels", [b"parts"], Path.mkdir).stat().st_ctime

    made = kept()
    time.sleep(0.05)

    assert kept() > made


def test_bundle_refuses_what_it_does_not_know() -> None:
    """The error lists the known packages."""
    with pytest.raises(BundleError, match=r"'reap'.*submit, status, search, plan, shard, finish"):
        bundle("reap", machine="aarch64", is_emulated=False)
    with pytest.raises(BundleError, match=r"'riscv64'.*aarch64, x86_64"):
        bundle("status", machine="riscv64", is_emulated=False)


def test_bundle_says_how_to_get_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to install uv if the variable UV names no program."""
    monkeypatch.setenv("UV", "/nowhere/uv")

    with pytest.raises(BundleError, match=r"'/nowhere/uv'.*pip install uv"):
        locked_requirements("status-function")


@linux_only
@pytest.mark.long
def test_bundle_reads_what_the_unpruned_libraries_read(tmp_path: Path) -> None:
    """Every file, and so every compression, gives the same pixels on the fast path and by GDAL."""
    files = sorted(str(path) for path in (DATA / "files").glob("*/*"))
    folder = bundle("shard", machine=HERE, is_emulated=False)

    from_bundle = run_probe(PROBE, ["read"], files, tmp_path, folder)

    assert len(from_bundle) == 2 * len(files) > 0
    assert from_bundle == run_probe(PROBE, ["read"], files, tmp_path)


@linux_only
@pytest.mark.long
def test_bundle_gathers_what_the_unpruned_libraries_gather(tmp_path: Path) -> None:
    """The stored bytes are the same in every codec, and PROJ's answers, too."""
    files = sorted(str(path) for path in (DATA / "series/files/stactools-noaa-cdr").glob("*.tif"))[:6]
    folder = bundle("plan", machine=HERE, is_emulated=False)

    from_bundle = run_probe(PROBE, ["gather"], files, tmp_path / "bundle", folder)

    assert from_bundle == run_probe(PROBE, ["gather"], files, tmp_path / "here")


@linux_only
@pytest.mark.long
def test_bundle_of_finish_draws_what_the_unpruned_libraries_draw(tmp_path: Path) -> None:
    """The report is the same, bit by bit."""
    files = sorted(str(path) for path in (DATA / "series/files/stactools-noaa-cdr").glob("*.tif"))[:6]
    cube = gather_undrawn({"sources": files, "window": "centre"}, to=tmp_path / "cube").place
    folder = bundle("finish", machine=HERE, is_emulated=False)

    from_bundle = run_probe(DRAWING_PROBE, [], [cube], tmp_path / "bundle", folder)

    assert {Path(name).suffix for name in from_bundle[cube]} == {".html", ".json", ".txt"}
    assert from_bundle == run_probe(DRAWING_PROBE, [], [cube], tmp_path / "here")


@linux_only
@pytest.mark.long
@pytest.mark.parametrize(("function", "modules"), ENTRIES)
def test_bundle_holds_all_that_its_handlers_import(function: str, modules: tuple[str, ...]) -> None:
    """A cold start finds every module in the package or in Lambda's runtime."""
    folder = bundle(function, machine=HERE, is_emulated=False)
    program = f"import sys; sys.path[:0] = sys.argv[1:]; import {', '.join(map(handler_module, modules))}"

    words = [BARE_PYTHON, "-I", "-S", "-c", program, str(folder), str(runtime(HERE))]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)  # noqa: S603 # as above

    assert done.returncode == 0, done.stderr


@linux_only
@pytest.mark.long
def test_bundle_of_search_finds_by_a_geometry(tmp_path: Path) -> None:
    """The package's shapely works."""
    triangle = {"type": "Polygon", "coordinates": [[[11, 46], [12, 46], [11, 47], [11, 46]]]}
    with SpooledItems() as spooled:
        spooled.add([item("triangle", geometry=triangle), item("box")], name="items")
        write_search_files(spooled, LocalStore(tmp_path), "catalog.parquet")
    folder = bundle("search", machine=HERE, is_emulated=False)
    point = {"type": "Point", "coordinates": [11.9, 46.9]}
    asked = event("POST", "/search", body=json.dumps({"intersects": point}))
    program = (
        "import json, sys; sys.path[:0] = sys.argv[2:]; import handlers.search.answer_searches; "
        "from types import SimpleNamespace; "
        "context = SimpleNamespace(function_name='f', memory_limit_in_mb=1, aws_request_id='r', "
        "invoked_function_arn='arn:aws:lambda:eu-central-1:123456789012:function:f'); "
        "print(handlers.search.answer_searches.handler(json.loads(sys.argv[1]), context)['body'])"
    )
    catalog = {"PIXEL_GATHER_CATALOG": f"file://{tmp_path}/catalog.parquet", "POWERTOOLS_LOG_LEVEL": "ERROR"}

    words = [BARE_PYTHON, "-I", "-S", "-c", program, json.dumps(asked), str(folder), str(runtime(HERE))]
    environment = dict(ENVIRONMENT) | catalog
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 # as above

    assert done.returncode == 0, done.stderr
    assert [each["id"] for each in json.loads(done.stdout)["features"]] == ["box"]


@linux_only
@pytest.mark.long
def test_bundle_of_the_worker_loads_compiled_modules_and_no_more_than_a_shard_needs() -> None:
    """The worker imports only the package's modules, and not boto3, although it is in the runtime."""
    folder = bundle("shard", machine=HERE, is_emulated=False)
    program = (
        "import json, sys; sys.path[:0] = sys.argv[1:]; import handlers.gather.gather_shard; "
        "print(json.dumps({name: getattr(each, '__cached__', None) for name, each in sys.modules.items() "
        "if str(getattr(each, '__file__', '')).startswith(sys.argv[1])}))"
    )

    words = [BARE_PYTHON, "-I", "-S", "-v", "-c", program, str(folder), str(runtime(HERE))]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True)  # noqa: S603 # as above

    loaded: dict[str, str | None] = json.loads(done.stdout)
    packages = {name.partition(".")[0] for name in re.findall(r"(?m)^import '([\w.]+)'", done.stderr)}
    assert {"handlers", "numpy", "obstore", "pixel_gather"} <= packages
    assert packages.isdisjoint(
        {
            "arro3",
            "boto3",
            "pydantic",
            "rasterio",
            "matplotlib",
            "regex",
            "s3transfer",
            "sqlite3",
            "urllib3",
            "zarr",
        }
    )
    assert (
        "botocore.session" not in done.stderr
    )  # Powertools looks whether botocore is there, and loads its top
    compiled = set(re.findall(r"(?m)^# code object from '([^']+\.pyc)'$", done.stderr))
    assert {path for path in loaded.values() if path and path.endswith(".pyc")} <= compiled


def run_probe(
    probe: Path, how: list[str], given: list[str], scratch: Path, folder: Path | None = None
) -> Any:
    """Return the output of a probe, run from a bundle if one is given."""
    scratch.mkdir(exist_ok=True)
    words = [sys.executable]
    if folder is not None:
        words = [BARE_PYTHON, "-I", "-S", "-c", FROM_FOLDERS, f"{folder}:{runtime(HERE)}"]
    done = subprocess.run(  # noqa: S603 # our own words
        [*words, str(probe), *how, str(scratch)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names_in(folder: Path) -> set[str]:
    """Return the names of what is directly in a folder, without extensions."""
    return {path.name.partition(".")[0] for path in folder.iterdir()} - {"__pycache__"}


def listing(folder: Path) -> dict[str, tuple[str, int, float]]:
    """Return digest, mode and time of every file and folder."""
    return {
        path.relative_to(folder).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mode,
            path.stat().st_mtime,
        )
        for path in folder.rglob("*")
    }


def linked_to(content: bytes) -> list[str]:
    """Return the names of the libraries that a library needs."""
    segments = segments_of(content)

    def place_of(address: int) -> int:
        return next(
            part.offset + address - part.address
            for part in segments
            if part.is_loaded and part.address <= address < part.address + part.nbytes
        )

    (dynamic,) = (part for part in segments if part.kind == 2)
    entries = np.frombuffer(content, "<u8", dynamic.nbytes // 8, dynamic.offset).reshape(-1, 2)
    strings = place_of(int(entries[entries[:, 0] == 5][0, 1]))
    starts = [strings + int(value) for tag, value in entries if tag == 1]
    return [content[start : content.index(b"\0", start)].decode() for start in starts]


def test_forget_old_removes_what_was_made_long_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old bundles and byte code are removed from the cache. The locks stay."""
    (tmp_path / "plan-aarch64-0123456789abcdef").mkdir()
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled" / "0123456789abcdef").touch()
    lock = tmp_path / ".plan-aarch64.lock"
    lock.touch()

    _forget_old(tmp_path)
    kept = [path for path in tmp_path.rglob("*") if path != lock]
    fortnight_later = time.time() + 15 * 24 * 3600
    monkeypatch.setattr(time, "time", lambda: fortnight_later)
    _forget_old(tmp_path)

    assert len(kept) == 3
    assert {*tmp_path.rglob("*")} == {lock, tmp_path / "compiled"}


@linux_only
@pytest.mark.long
def test_bundle_of_rankings_rasterises_an_area() -> None:
    """A ranking's area is laid on images by shapely and rasterio."""
    folder = bundle("plan", machine=HERE, is_emulated=False)
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]; import shapely; "
        "from pixel_gather.features.rank.area_on_images import PolygonOnImage; "
        "from pixel_gather.core.model.window import Window; "
        "window = Window(col_off=0, row_off=0, width=4, height=4); "
        "print(PolygonOnImage(shapely.box(0, 0, 3, 3)).mask(window).sum())"
    )

    words = [BARE_PYTHON, "-I", "-S", "-c", program, str(folder), str(runtime(HERE))]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)  # noqa: S603 # as above

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "9"
