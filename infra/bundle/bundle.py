"""Makes a function's Lambda package as a folder: pruned wheels for its machine, and our compiled code.

A package for the emulator names the folder of its wheels instead. So it is 4 MB instead of up to 200 MB.

``python -m infra.bundle.bundle shard aarch64`` makes one and prints its size.
"""

import argparse
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Final

from handlers.openapi.document import openapi_document
from infra.bundle.byte_code import compile_modules
from infra.bundle.elf import strip
from infra.bundle.expat import add_expat
from infra.bundle.pruning import prune
from infra.bundle.wheels import (
    IN_THE_RUNTIME,
    REPOSITORY,
    BundleError,
    locked_requirements,
    unpack,
)
from infra.file_lock import file_lock

FUNCTIONS: Final = ("submit", "status", "search", "plan", "shard", "finish")
MACHINES: Final = ("aarch64", "x86_64")

LARGEST_NBYTES: Final = 240_000_000
"""Lambda takes 250 MB unzipped. The difference is for growing wheels."""

_BUNDLES: Final = REPOSITORY / "build" / "bundles"
_COMPILED: Final = "compiled"
"""The folder beside the packages that has the byte code of their modules."""

_OURS: Final = REPOSITORY / "functions"
_HERE: Final = Path(__file__).parent
_EMULATION: Final = {
    "bootstrap": _HERE / "bootstrap.sh",
    "emulated_runtime.py": _HERE / "emulated_runtime.py",
}
"""Files that only packages for the emulator have."""

_WHEELS: Final = "wheels"
"""In a package for the emulator: the name of the folder of its wheels, beside that of ``runtime``."""

_KEPT_S: Final = 14 * 24 * 3600.0

_LONG_AGO: Final = 315_532_800
"""1 January 1980, the oldest time in zip files."""


def bundle(function: str, *, machine: str, is_emulated: bool, below: Path = _BUNDLES) -> Path:
    """Return the folder of one function's package. It is made where it is missing.

    The same inputs give the same bytes. The folder's name has a digest of them. Do not change the folder. If
    it is emulated, it names the wheels instead of adding them, and adds ``bootstrap``, which runs the handler
    without Lambda's own runtime. The machine may differ from this one.

    Raises:
        BundleError: There is no such function, uv is missing, or there are no wheels for the machine.
    """
    _check("function", function, FUNCTIONS)
    _check("machine", machine, MACHINES)
    requirements = locked_requirements(f"{function}-function", without=IN_THE_RUNTIME)
    # the emulator's machine has its own expat, which its Python may use
    with_expat = not is_emulated and "\nrasterio==" in f"\n{requirements}"
    wheels = _wheels(function, machine, requirements, with_expat=with_expat, below=below)
    # every package has all of our code: 4 MB when zipped, and no list of modules to keep up to date
    files = {
        path.relative_to(_OURS).as_posix(): path for path in sorted(_OURS.rglob("*")) if _is_source(path)
    }
    ours = {name: path.read_bytes() for name, path in (files | (_EMULATION if is_emulated else {})).items()}
    if is_emulated:
        ours[_WHEELS] = wheels.name.encode()
    ours["handlers/api/openapi.json"] = json.dumps(openapi_document()).encode()

    def make(folder: Path) -> None:
        if not is_emulated:
            shutil.copytree(wheels, folder, copy_function=os.link)
        for name, content in ours.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        modules = [folder / name for name in ours if name.endswith(".py")]
        compile_modules(folder, modules, kept=below / _COMPILED)
        _settle(folder)

    parts = [wheels.name.encode()] + [
        part for name, content in ours.items() for part in (name.encode(), content)
    ]
    return _kept(below, f"{function}-{machine}", parts, make)


def runtime(machine: str, *, below: Path = _BUNDLES) -> Path:
    """Return a folder with the packages of Lambda's own Python: boto3 and the runtime's client.

    The emulator names it to ``bootstrap`` by PIXEL_GATHER_EMULATOR_RUNTIME.

    Raises:
        BundleError: As ``bundle``.
    """
    _check("machine", machine, MACHINES)
    return _wheels("runtime", machine, locked_requirements("runtime"), with_expat=False, below=below)


def unzipped_nbytes(folder: Path) -> int:
    """Return the size that Lambda counts against its limit."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")


def _check(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise BundleError(f"{what} is {value!r}; it has to be one of {', '.join(known)}")


def _wheels(name: str, machine: str, requirements: str, *, with_expat: bool, below: Path) -> Path:
    """Return a folder of compiled wheels. Packages are hard-linked to it, so they are made quickly."""

    def make(folder: Path) -> None:
        unpack(requirements, folder, machine=machine)
        prune(folder)
        strip(folder)
        if with_expat:
            add_expat(folder, machine=machine)
        compile_modules(folder, sorted(folder.rglob("*.py")), kept=below / _COMPILED)
        _settle(folder)

    parts = [f"{machine} {with_expat}".encode(), requirements.encode()]
    return _kept(below, f"{name}-wheels-{machine}", parts, make)


def _kept(below: Path, name: str, parts: list[bytes], make: Callable[[Path], None]) -> Path:
    """Return the folder that ``make`` makes of these parts. One process makes it, wholly or not at all."""
    digest = hashlib.sha256(MAGIC_NUMBER)
    for part in [*parts, *(path.read_bytes() for path in sorted(_HERE.glob("*.py")))]:
        digest.update(f"{len(part)}\n".encode() + part)
    folder = below / f"{name}-{digest.hexdigest()[:16]}"
    with file_lock(below / f".{name}.lock"):
        if folder.is_dir():
            os.utime(folder, (_LONG_AGO, _LONG_AGO))  # changes st_ctime: it is in use
        else:
            _forget_old(below)
            with tempfile.TemporaryDirectory(dir=below, prefix=f".{name}-") as scratch:
                made = Path(scratch) / "made"
                make(made)
                made.rename(folder)
    return folder


def _forget_old(below: Path) -> None:
    """Remove old packages and byte code. They are made again in seconds when needed."""
    compiled = below / _COMPILED
    for folder in below.iterdir():
        if folder != compiled and _is_old(folder):
            shutil.rmtree(folder, ignore_errors=True)
    for file in compiled.glob("*"):
        with suppress(FileNotFoundError):  # another process removes it as well
            if _is_old(file):
                file.unlink()


def _is_old(path: Path) -> bool:
    """Return whether nothing has changed, and nothing was linked to a file, for a long time."""
    return time.time() - path.stat().st_ctime > _KEPT_S


def _settle(folder: Path) -> None:
    """Give all files the same time, and modes that Lambda's user can read."""
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o755 if path.is_dir() or path.name == "bootstrap" else 0o644)
        os.utime(path, (_LONG_AGO, _LONG_AGO))


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.bundle.bundle", description=__doc__)
    parser.add_argument("function", choices=FUNCTIONS)
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--emulated", action="store_true")
    chosen = parser.parse_args()
    made = bundle(chosen.function, machine=chosen.machine, is_emulated=chosen.emulated)
    print(f"{made} {unzipped_nbytes(made) / 1e6:.1f} MB unzipped")  # noqa: T201 # this is a command


if __name__ == "__main__":
    _main()
