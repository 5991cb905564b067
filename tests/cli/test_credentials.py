"""Without credentials for S3, or with wrong ones, every command ends at once with one sentence."""

import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from pixel_gather.io.store.object_store import open_to_read
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_cli.deployment.aws_account import AwsAccount
from pixel_gather_cli.main import main
from support.local_server import Answer, serving

_LS = ("ls", "s3://no-such-bucket/")
_IN_PROCESS = (
    ("plan", "--sources", "LIST", "--tile", "centre"),
    ("run", "--sources", "LIST", "--tile", "centre", "--to", "CUBE"),
    ("run", "--sources", "LOCAL", "--tile", "centre", "--to", "s3://no-such-bucket/cube.zarr"),
    ("drill", "LIST", "--pixel", "0,0"),
    ("index", "LIST", "--to", "INDEX"),
    ("index", "LOCAL", "--to", "s3://no-such-bucket/headers.parquet"),
    _LS,
    ("report", "s3://no-such-bucket/cube.zarr", "--to", "REPORT"),
)
_ON_AWS = (("list",), ("status", "some-gather"), ("submit", "--sources", "LIST", "--tile", "centre"))
_FILE = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"


def _name(arguments: tuple[str, ...]) -> str:
    return " ".join(arguments)


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Values for the placeholders in the commands, on a machine without an AWS account."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    local = min(_FILE.glob("heat_content_anomaly_0-2000*.tif"))
    (tmp_path / "list.txt").write_text("s3://no-such-bucket/a.tif\n")
    (tmp_path / "local.txt").write_text(f"{local}\n")
    return {
        "LIST": str(tmp_path / "list.txt"),
        "LOCAL": str(tmp_path / "local.txt"),
        "CUBE": str(tmp_path / "cube.zarr"),
        "INDEX": str(tmp_path / "headers.parquet"),
        "REPORT": str(tmp_path / "report"),
        "NEW": str(tmp_path / "new"),
    }


def _refusal(arguments: tuple[str, ...], words: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([words.get(word, word) for word in arguments])

    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.strip().splitlines()
    return line


@pytest.mark.parametrize("arguments", _IN_PROCESS, ids=_name)
def test_no_credentials_is_one_sentence(
    arguments: tuple[str, ...], words: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence says what to do, and no file is left."""
    before = sorted(tmp_path.iterdir())

    said = _refusal(arguments, words, capsys)

    assert said.startswith("pixel-gather: no AWS credentials were found: set AWS_PROFILE or sign in")
    assert "--unsigned" in said
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("secret", ["", None])
def test_empty_credentials_are_none(
    secret: str | None,
    words: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A variable that a script has set to nothing counts as unset."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "")
    if secret is not None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)

    said = _refusal(_LS, words, capsys)

    assert said.startswith("pixel-gather: no AWS credentials were found: set AWS_PROFILE or sign in")


@pytest.mark.parametrize("names", list(permutations(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))))
def test_half_of_the_credentials_is_one_sentence(
    names: tuple[str, str],
    words: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The sentence names the variable that is missing or empty."""
    there, missing = names
    monkeypatch.setenv(there, "something")
    monkeypatch.setenv(missing, "")

    said = _refusal(_LS, words, capsys)

    assert said.startswith(f"pixel-gather: {there} is set and {missing} is not: set both")


def test_half_of_the_credentials_is_no_matter_where_none_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Public buckets are read without credentials, whatever the environment holds."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "something")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)

    assert open_to_read("s3://public-bucket/", StoreSettings(unsigned=True)) is not None


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        *_IN_PROCESS[:3],
        *_IN_PROCESS[6:],
        ("bench", "blocks", "--cube", "s3://no-such-bucket/cube.zarr", "--to", "NEW"),
        ("catalog", "--sources", "LIST", "--to", "s3://no-such-bucket/catalog.parquet"),
        ("compact", "s3://no-such-bucket/cube.zarr"),
        ("export", "s3://no-such-bucket/cube.zarr", "--to", "table.csv"),
        ("forget", "s3://no-such-bucket/cube.zarr", "--before", "2"),
        ("join", "s3://no-such-bucket/cube.zarr", "--to", "NEW"),
        ("presence", "s3://no-such-bucket/cube.zarr", "--by", "month"),
        ("replay", "s3://no-such-bucket/cube.zarr"),
        ("search", "--catalog", "s3://no-such-bucket/catalog.parquet"),
        ("verify", "s3://no-such-bucket/cube.zarr"),
        ("versions", "s3://no-such-bucket/cube.zarr"),
        ("view", "s3://no-such-bucket/cube.zarr"),
    ],
    ids=_name,
)
def test_a_machine_outside_aws_has_no_role(
    arguments: tuple[str, ...],
    words: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where no credentials are set, the client asks for the machine's role. Nobody answers that but AWS."""
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with serving(lambda _: Answer(status=404)) as nobody:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", nobody.root)
        said = _refusal(arguments, words, capsys)

    assert "no AWS credentials were found: set AWS_PROFILE or sign in" in said


@pytest.mark.long
@pytest.mark.parametrize("arguments", _ON_AWS, ids=_name)
def test_no_credentials_for_a_deployment_is_one_sentence(
    arguments: tuple[str, ...], words: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands for a deployment end with one sentence, too."""
    said = _refusal((*arguments, "--region", "eu-central-1"), words, capsys)

    assert said.startswith("pixel-gather: no AWS credentials were found: set AWS_PROFILE or sign in")


@pytest.mark.long
@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_of_a_deployment_comes_from_the_environment(
    name: str, words: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message about a missing Region names AWS_REGION. boto3 does not read that by itself."""
    without = _refusal(("list",), words, capsys)
    monkeypatch.setenv(name, "eu-central-1")
    said = _refusal(("list",), words, capsys)

    assert "no AWS Region is set: give --region or set AWS_REGION" in without
    assert said.startswith("pixel-gather: no AWS credentials were found")


@pytest.mark.long
@pytest.mark.parametrize("arguments", [*_IN_PROCESS, *_ON_AWS], ids=_name)
def test_a_profile_that_is_not_there_is_one_sentence(
    arguments: tuple[str, ...], words: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing profile is one sentence, whether or not other profiles exist."""
    said = _refusal((*arguments, "--profile", "nope"), words, capsys)

    assert "The config profile (nope) could not be found: check --profile" in said


@pytest.mark.long
def test_without_boto3_a_profile_says_what_to_install(words: dict[str, str]) -> None:
    """A profile needs boto3. The message says which extra to install."""
    arguments = ["plan", "--sources", words["LIST"], "--tile", "centre", "--profile", "some"]
    program = (
        "import sys; sys.modules['boto3'] = None; "
        f"from pixel_gather_cli.main import main; main({arguments!r})"
    )

    ended = subprocess.run(  # noqa: S603 # our own words
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert ended.stderr.strip() == (
        "pixel-gather: AWS profiles need boto3, which is not installed: pip install '.[aws]' in a clone, "
        "or 'WHEEL[aws]' with the path of the wheel"
    )


def test_region_of_the_users_settings_holds_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty AWS_REGION is none: ~/.aws/config decides."""
    config = tmp_path / "config"
    config.write_text("[default]\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_REGION", "")
    for name in ("AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)

    account = AwsAccount(region=None, profile=None, endpoint=None)

    assert account.client("s3").meta.region_name == "eu-north-1"
