"""The command ``pixel-gather view``."""

import json
import webbrowser
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from pixel_gather_cli.deployment import remote
from pixel_gather_cli.deployment.remote import Target
from support.command_line import run as run_command


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses that the browser opens. The user presses Ctrl-C at once."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    addresses: list[str] = []
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupt)

    def open_(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", open_)
    return addresses


run = partial(run_command, "view")


def test_view_opens_the_address_it_prints_and_ends_quietly(
    opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C is the usual end: exit code 0 and no complaint."""
    (tmp_path / "zarr.json").write_text("{}")

    assert run(tmp_path) == 0

    said = capsys.readouterr()
    assert said.out.strip().startswith("http://127.0.0.1:")
    assert opened == [said.out.strip()]
    assert said.err == "Ctrl-C ends.\n"


def test_view_opens_no_browser_if_told_so(
    opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The address is printed all the same."""
    (tmp_path / "zarr.json").write_text("{}")

    assert run(tmp_path, "--no-open") == 0

    assert capsys.readouterr().out.strip().endswith(f"/{tmp_path.name}/view.html")
    assert not opened


def test_view_of_nothing_says_what_to_name(
    opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without a cube is refused before anything is served."""
    assert run(tmp_path) == 2

    assert "no cube is there; name the folder that a gather has written" in capsys.readouterr().err
    assert not opened


def test_view_answers_programs_in_json(
    opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They need the port and the token."""
    (tmp_path / "zarr.json").write_text("{}")

    assert run(tmp_path, "--json") == 0

    assert json.loads(capsys.readouterr().out) == {"url": opened[0], "cube": str(tmp_path)}


def test_view_finds_the_cube_of_a_gather_on_aws(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its ID, in the deployment that the options and the environment name."""
    (tmp_path / "zarr.json").write_text("{}")
    asked: list[Target] = []

    class Deployment:
        def status(self, id_: str) -> dict[str, object]:
            return {"cube": str(tmp_path) if id_ == "bolzano-0123456789abcdef-2" else None}

    def open_(target: Target) -> Deployment:
        asked.append(target)
        return Deployment()

    monkeypatch.setattr(remote, "open_deployment", open_)

    codes = [
        run("bolzano-0123456789abcdef-2", "--region", "eu-west-1"),
        run("0123456789abcdef", "--stack", "PixelGather-test"),
    ]

    assert codes == [0, 2]
    assert len(opened) == 1
    assert asked == [Target(region="eu-west-1"), Target(stack="PixelGather-test")]
    assert "the gather 0123456789abcdef has no cube yet" in capsys.readouterr().err


def test_view_takes_a_folder_that_is_named_like_a_gather(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there needs no deployment."""
    folder = tmp_path / "0123456789abcdef"
    folder.mkdir()
    (folder / "zarr.json").write_text("{}")
    monkeypatch.chdir(tmp_path)

    assert run("0123456789abcdef") == 0
    assert len(opened) == 1
