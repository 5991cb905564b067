"""A module that several packages have is compiled once, and its byte code does not depend on the package."""

from collections.abc import Callable
from pathlib import Path

import pytest

from infra.bundle import byte_code
from infra.bundle.byte_code import compile_modules
from infra.bundle.wheels import BundleError

type Package = Callable[..., Path]


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """Return a function that makes a package of modules by their text, and compiles it."""

    def make(name: str, **modules: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for module, text in modules.items():
            (folder / f"{module}.py").write_text(text)
        compile_modules(folder, sorted(folder.glob("*.py")), kept=tmp_path / "kept")
        return folder

    return make


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the modules that were compiled, in order."""
    names: list[str] = []
    compile_ = byte_code._compile

    def recorded(folder: Path, modules: list[Path]) -> None:
        names.extend(f"{folder.name}/{module.name}" for module in modules)
        compile_(folder, modules)

    monkeypatch.setattr(byte_code, "_compile", recorded)
    return names


def test_compile_modules_compiles_one_text_at_one_path_once(package: Package, compiled: list[str]) -> None:
    """Neither another text nor another path takes byte code that is kept."""
    first = package("first", a="x = {'a', 'b'}", b="y = 1")
    second = package("second", a="x = {'a', 'b'}", b="y = 2", c="y = 1")

    assert compiled == ["first/a.py", "first/b.py", "second/b.py", "second/c.py"]
    for name, is_same in (("a", True), ("b", False)):
        ours, other = (folder / "__pycache__" / f"{name}.cpython-313.pyc" for folder in (first, second))
        assert ours.samefile(other) == is_same
        assert (ours.read_bytes() == other.read_bytes()) == is_same
    assert b"/var/task/c.py" in (second / "__pycache__" / "c.cpython-313.pyc").read_bytes()


def test_compile_modules_names_what_cannot_be_compiled(package: Package, tmp_path: Path) -> None:
    """Nothing is kept of it."""
    with pytest.raises(BundleError, match=r"(?s)cannot be compiled.*wrong\.py"):
        package("first", wrong="x = (")

    assert list((tmp_path / "kept").iterdir()) == []
