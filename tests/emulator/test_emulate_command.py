"""``pixel-gather emulate``, with a fake for the deployment, which takes half a minute."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pixel_gather_cli.commands.emulate import Options, Steps, emulate, emulate_command


class NotDeployedError(Exception):
    """The error of a deployment that fails."""


@dataclass
class FakeEmulator:
    """A fake of a deployed emulator. It records its arguments."""

    ends_with: type[BaseException] | None = None
    """The exception that is raised while the command waits."""

    asked: dict[str, Any] = field(default_factory=dict)
    has_ended: bool = False
    variables: Mapping[str, str] = field(default_factory=lambda: {"AWS_REGION": "us-east-1", "SAID": "a b'c"})
    api_url = "https://127.0.0.1:1/_aws/execute-api/x/v1"
    endpoint = "https://127.0.0.1:1"
    region = "us-east-1"
    state_machine_arn = "arn"
    array_bucket = "arrays"
    control_bucket = "control"
    samples = SimpleNamespace(list_href="s3://samples/list.csv")

    @property
    def environment(self) -> dict[str, str]:
        """Return a complete environment."""
        return {**os.environ, **self.variables}

    @property
    def emulator(self) -> "FakeEmulator":
        """The object whose `wait` is called."""
        return self

    def wait(self) -> None:
        """Raise the configured exception, if any."""
        if self.ends_with is not None:
            raise self.ends_with

    @contextmanager
    def deployed(self, **asked: Any) -> Generator["FakeEmulator"]:
        """A fake of `pixel_gather_emulator.deploy.deployed`."""
        self.asked = asked
        asked["on_step"]("deploy")
        try:
            yield self
        finally:
            self.has_ended = True


def run(fake: FakeEmulator, *command: str, **options: Any) -> int:
    """Run the command."""
    return emulate(command, Options(**options), deployed=fake.deployed, failures=NotDeployedError)


def test_emulate_prints_lines_that_a_shell_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that lead to another deployment are unset."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://elsewhere")
    fake = FakeEmulator()

    code = run(fake)

    printed = capsys.readouterr()
    shown = 'echo "$SAID|${AWS_PROFILE-none}|${AWS_ENDPOINT_URL_S3-none}"'
    script = f"export AWS_PROFILE=x\n{printed.out}\n{shown}"
    said = subprocess.run(  # noqa: S603 # what is printed is for a shell
        ["/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "a b'c|none|none\n"
    assert fake.api_url in printed.err
    assert (code, fake.has_ended) == (0, True)


def test_emulate_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON for scripts has all variables."""
    run(FakeEmulator(), as_json=True)

    printed = json.loads(capsys.readouterr().out)
    assert printed["environment"]["SAID"] == "a b'c"
    assert printed["samples"] == "s3://samples/list.csv"


def test_emulate_hands_on_what_was_asked_for() -> None:
    """Port, workers, buckets and settings of the stack are passed on."""
    fake = FakeEmulator()

    run(fake, port=4000, workers=3, source_buckets=("a", "b"), context={"max_usd": "1"})

    asked = {name: value for name, value in fake.asked.items() if name != "on_step"}
    assert asked == {
        "port": 4000,
        "max_workers": 3,
        "source_buckets": ("a", "b"),
        "context": {"max_usd": "1"},
    }


def test_emulate_runs_a_command_in_the_environment_and_ends_as_it_does(tmp_path: Path) -> None:
    """The emulator ends with the command."""
    fake, said = FakeEmulator(), tmp_path / "said"
    code = f"import os, pathlib, sys; pathlib.Path({str(said)!r}).write_text(os.environ['SAID']); sys.exit(7)"

    ended = run(fake, sys.executable, "-c", code)

    assert (ended, said.read_text(), fake.has_ended) == (7, "a b'c", True)


def test_emulate_ends_as_a_shell_does_when_its_command_is_killed() -> None:
    """The exit code is 128 plus the signal's number."""
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    assert run(FakeEmulator(), sys.executable, "-c", code) == 128 + signal.SIGKILL


def test_emulate_says_which_command_there_is_not() -> None:
    """An unknown command is one line without a traceback."""
    fake = FakeEmulator()

    with pytest.raises(click.ClickException, match="no-such-command: No such file"):
        run(fake, "no-such-command")

    assert fake.has_ended


def test_emulate_has_an_env_file_while_it_is_ready(tmp_path: Path) -> None:
    """The file is complete, readable by its owner only, and removed at the end."""
    path = tmp_path / "env"
    code = f"import pathlib, sys; sys.exit(pathlib.Path({str(path)!r}).read_text().count('SAID='))"

    assert run(FakeEmulator(), sys.executable, "-c", code, env_file=path) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_of_the_env_file_is_told_before_the_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deployment takes up to a minute. It is not made in vain."""
    monkeypatch.setitem(sys.modules, "pixel_gather_emulator", None)

    ended = CliRunner().invoke(emulate_command, ["--env-file", str(tmp_path / "none" / "env")])

    assert f"--env-file: there is no folder {tmp_path / 'none'}; nothing was deployed" in ended.output


def test_env_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Any shell reads values with blanks and quotes correctly."""
    path, read = tmp_path / "env", tmp_path / "read"
    script = f'. {shlex.quote(str(path))}; printf %s "$SAID" > {shlex.quote(str(read))}'

    run(FakeEmulator(variables={"SAID": "a b'c"}), "sh", "-c", script, env_file=path)

    assert read.read_text() == "a b'c"


def test_emulate_ends_well_on_ctrl_c() -> None:
    """Ctrl-C is the normal end."""
    fake = FakeEmulator(ends_with=KeyboardInterrupt)

    assert run(fake) == 0
    assert fake.has_ended


def test_emulate_leaves_in_order_when_terminated() -> None:
    """SIGTERM also ends the command. The emulator ends before the process."""
    fake, parent = FakeEmulator(), os.getpid()
    code = f"import os, signal, time; os.kill({parent}, signal.SIGTERM); time.sleep(600)"

    with pytest.raises(SystemExit) as ended:
        run(fake, sys.executable, "-c", code)

    assert ended.value.code == 128 + signal.SIGTERM
    assert fake.has_ended


def test_a_long_step_says_that_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """A deployment takes a minute on a slow machine."""
    steps = Steps()

    steps.goes_on()
    steps.begin("deploy")
    steps.goes_on()
    steps.end()
    steps.goes_on()

    assert [line.split(" s  ")[1] for line in capsys.readouterr().err.splitlines()] == (
        ["deploy", "deploy: goes on"]
    )


def test_emulate_says_why_it_could_not_deploy() -> None:
    """The error is one message."""

    @contextmanager
    def fails(**_: Any) -> Generator[FakeEmulator]:
        raise NotDeployedError("no node")
        yield

    with pytest.raises(click.ClickException, match="no node"):
        emulate((), Options(), deployed=fails, failures=NotDeployedError)
