"""How buckets of each cloud are opened, and what is said where that fails."""

import os
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from pixel_gather.core.errors import DeniedError
from pixel_gather.core.model.status import Status
from pixel_gather.io.event_loop import run
from pixel_gather.io.store.conditional_put import etag_of, put_if
from pixel_gather.io.store.list_objects import list_objects
from pixel_gather.io.store.object_store import open_place, open_store
from pixel_gather.io.store.store_error_status import classify_store_error, said_of_place
from pixel_gather.io.store.store_settings import StoreSettings
from support import cloud_store
from support.cloud_store import Cloud, CloudStore, variables
from support.local_server import Answer, serving

ABFS = "abfs://box@other.dfs.core.windows.net"


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's credentials are used."""
    for name in [each for each in os.environ if each.startswith(("GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)


def test_google_is_asked_without_credentials_or_for_a_paying_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each only where it is wanted."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "who-pays")

    plain = open_store("gs://bucket", StoreSettings(unsigned=True))
    paying = open_place("gs://bucket/a", StoreSettings(requester_pays=True))

    assert isinstance(plain, GCSStore)
    assert isinstance(paying, GCSStore)
    assert plain.config["skip_signature"]
    assert "default_headers" not in (plain.client_options or {})
    assert "skip_signature" not in paying.config
    assert (paying.client_options or {})["default_headers"] == {"x-goog-user-project": b"who-pays"}


def test_who_pays_google_has_to_be_named() -> None:
    """No request is sent before that."""
    with pytest.raises(DeniedError, match="set GOOGLE_CLOUD_PROJECT to the project that pays"):
        open_store("gs://bucket", StoreSettings(requester_pays=True))


def test_file_of_credentials_that_is_none_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at each source."""
    (tmp_path / "key.json").write_text("{}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))

    with pytest.raises(DeniedError, match="gs://bucket cannot be opened"):
        open_store("gs://bucket", StoreSettings())


@pytest.mark.parametrize("name", ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"])
def test_credentials_go_to_the_account_of_the_environment_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of somebody else's cannot have them sent to another account."""
    monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=secret")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:9/mine")

    own, also_own, other = (
        open_store(root, StoreSettings()) for root in ("az://box", ABFS.replace("other", "mine"), ABFS)
    )

    for each in (own, also_own):
        assert isinstance(each, AzureStore)
        assert each.config["account_name"] == "mine"
        assert each.config["endpoint"] == "http://127.0.0.1:9/mine"
        assert not each.config.get("skip_signature")
    assert isinstance(other, AzureStore)
    assert other.config["account_name"] == "other"
    assert other.config["endpoint"] == "https://other.blob.core.windows.net"
    assert other.config["skip_signature"]


def test_azures_account_has_to_be_named() -> None:
    """By the address or by the environment."""
    with pytest.raises(DeniedError, match="set AZURE_STORAGE_ACCOUNT_NAME, or write abfs://"):
        open_store("az://box", StoreSettings())


AZURE, GOOGLE = ("AZURE_STORAGE_ENDPOINT", "az://box"), ("GOOGLE_BASE_URL", "gs://bucket")


@pytest.mark.parametrize(
    ("cloud", "status", "code", "verdict", "said"),
    [
        (AZURE, 404, "ContainerNotFound", Status.MISSING, "there is no such bucket"),
        (AZURE, 404, "BlobNotFound", Status.MISSING, "no such object"),
        (AZURE, 404, "ResourceNotFound", Status.DENIED, "the container is not public"),
        (AZURE, 409, "PublicAccessNotPermitted", Status.DENIED, "the container is not public"),
        (AZURE, 401, "NoAuthenticationInformation", Status.DENIED, "the container is not public"),
        (AZURE, 403, "AuthenticationFailed", Status.DENIED, "Azure does not know these credentials"),
        (AZURE, 403, "AuthorizationPermissionMismatch", Status.DENIED, "the store refused access"),
        (AZURE, 503, "ServerBusy", Status.TIMED_OUT, "the store stayed busy"),
        (GOOGLE, 404, "NoSuchBucket", Status.MISSING, "there is no such bucket"),
        (GOOGLE, 404, "NoSuchKey", Status.MISSING, "no such object"),
        (
            GOOGLE,
            400,
            "UserProjectMissing",
            Status.DENIED,
            "give --requester-pays, and set GOOGLE_CLOUD_PROJECT",
        ),
        (GOOGLE, 403, "AccessDenied", Status.DENIED, "the store refused access"),
    ],
)
def test_what_a_cloud_refuses_is_said_without_the_token(
    cloud: tuple[str, str],
    status: int,
    code: str,
    verdict: Status,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the codes of its XML. Azure's token is in the address of each request."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=secret")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "secret")
    error = _asked(*cloud, status, code, monkeypatch)

    assert classify_store_error(error)[0] is verdict
    assert said in classify_store_error(error)[1]
    assert "secret" not in classify_store_error(error)[1] + said_of_place(error)


@pytest.mark.parametrize(
    ("own", "of_environment", "endpoint"),
    [
        (None, "cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn"),
        ("cn-northwest-1", "cn-north-1", "https://s3.cn-northwest-1.amazonaws.com.cn"),
        ("eu-central-1", "cn-north-1", None),
        (None, "eu-central-1", None),
    ],
)
def test_s3_in_china_has_another_address(
    own: str | None, of_environment: str, endpoint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Obstore would ask s3.cn-north-1.amazonaws.com, which is no address of S3."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", of_environment)

    store = open_place("s3://scenes", StoreSettings(region=own, unsigned=True))

    assert isinstance(store, S3Store)
    assert store.config.get("endpoint") == endpoint


@pytest.mark.parametrize(
    ("name", "root"), [("GOOGLE_BASE_URL", "gs://bucket"), ("AZURE_STORAGE_ENDPOINT", "az://box")]
)
def test_endpoints_have_to_be_web_addresses(name: str, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable is none. obstore ends the process where it gets another text."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    monkeypatch.setenv(name, "localhost:4443")
    with pytest.raises(DeniedError, match="'localhost:4443' is no web address; write https://host"):
        open_store(root, StoreSettings())

    monkeypatch.setenv(name, "")
    store = open_store(root, StoreSettings())

    assert isinstance(store, GCSStore | AzureStore)
    assert not store.config.get("base_url")
    assert not store.config.get("endpoint")


@pytest.mark.parametrize("cloud", ["gs", "az"])
def test_put_if_replaces_the_version_that_was_seen(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is still as it was, and nothing that is not there."""
    there = CloudStore()
    with cloud_store.serving(there, cloud) as endpoint:
        for name, value in variables(cloud, endpoint).items():
            monkeypatch.setenv(name, value)
        store = open_place(f"{cloud}://box/folder", StoreSettings())

        def put(content: bytes, etag: str | None) -> str | None:
            return run(put_if(store, "key", content, etag=etag, what="not written"))

        assert put(b"0", "gone") is None
        first = put(b"1", None)
        assert put(b"other", None) is None
        assert first == run(etag_of(store, "key"))
        assert put(b"2", first) == run(etag_of(store, "key"))
        assert put(b"3", first) is None
        assert [meta["e_tag"] for meta in list_objects(store, "")] == [run(etag_of(store, "key"))]

    assert there.objects == {"box/folder/key": b"2"}


def test_put_if_at_google_sees_who_comes_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ETag was as expected when it was looked at. Another writer came before the PUT."""
    there = CloudStore()
    with cloud_store.serving(there, "gs") as endpoint:
        for name, value in variables("gs", endpoint).items():
            monkeypatch.setenv(name, value)
        store = open_store("gs://box", StoreSettings())
        there.put("box/key", b"1", {})
        head = obstore.head_async

        async def interrupted(*args: Any) -> Any:
            found = await head(*args)
            there.put("box/key", b"theirs", {})
            return found

        monkeypatch.setattr("obstore.head_async", interrupted)
        etag = cloud_store.etag_of(b"1")

        assert run(put_if(store, "key", b"2", etag=etag, what="not written")) is None

    assert there.objects == {"box/key": b"theirs"}


@pytest.mark.parametrize(
    ("then", "etag"),
    [(Answer(status=200, headers={"ETag": '"ours"'}), '"ours"'), (Answer(status=412), None)],
)
def test_put_if_asks_s3_again_that_cannot_tell_yet(
    then: Answer, etag: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers 409 while another request for the object is under way. obstore says that it is there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    conflict = Answer(status=409, body=b"<Error><Code>ConditionalRequestConflict</Code></Error>")
    answers = iter((conflict, then))
    with serving(lambda _: next(answers)) as server:
        store = open_place("s3://bucket", StoreSettings(endpoint=server.root))

        assert run(put_if(store, "key", b"1", etag=None, what="not written")) == etag

    assert [asked.headers["If-None-Match"] for asked in server.asked] == ["*", "*"]


def _asked(name: str, root: str, status: int, code: str, monkeypatch: pytest.MonkeyPatch) -> Exception:
    """Return what obstore raises where a store at the address in a variable refuses a GET."""
    content = f"<Error><Code>{code}</Code></Error>".encode()
    with serving(lambda _: Answer(status=status, body=content)) as server:
        monkeypatch.setenv(name, server.root)
        store = open_store(root, StoreSettings())
        with pytest.raises((BaseError, OSError)) as caught:
            obstore.get(store, "key")
    return caught.value
