"""A deployment reached by its REST API: requests signed by SigV4, refusals as problem details (RFC 9457)."""

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from time import sleep
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from pixel_gather.core.errors import (
    BudgetError,
    DeniedError,
    DeploymentError,
    GatherError,
    GatherNotFoundError,
    NotRedrivableError,
    RequestError,
    TableNotFoundError,
    ThrottledError,
    UnreachableError,
)
from pixel_gather.core.request.request import GatherRequest
from pixel_gather.io.aws.aws_errors import aws_errors_in_words
from pixel_gather.io.aws.executions import none_with_id
from pixel_gather_cli.deployment.aws_account import AwsAccount
from pixel_gather_cli.deployment.deployment import Kind, LocalList

_REGION_OF_HOST: Final = re.compile(r"\.execute-api\.([a-z0-9-]+)\.")
_PROBLEM: Final = "urn:pixel-gather:problem:"
_OK: Final = range(200, 300)
_LONGEST_TEXT: Final = 500
_PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Before a throttled request is sent again, at most. Of 50 submissions at once, the API takes 40."""

_PAUSES_OF_UPLOAD_S: Final = (1.0, 2.0, 4.0)
"""Before a file is uploaded again, at most."""

_BY_CODE: Final[Mapping[str, type[GatherError]]] = {
    kind.code: kind
    for kind in (
        DeniedError,
        DeploymentError,
        GatherNotFoundError,
        NotRedrivableError,
        TableNotFoundError,
        UnreachableError,
    )
}
_BY_STATUS: Final[Mapping[int, type[GatherError]]] = {
    401: DeniedError,
    403: DeniedError,
    500: UnreachableError,
    502: UnreachableError,
    503: UnreachableError,
    504: UnreachableError,
}
_NOT_STARTED: Final = (500, "failed")
"""API Gateway's own answer if Lambda does not start the function, because as many as may are running.
A function that fails is 502, and one that takes too long is 504:
https://docs.aws.amazon.com/lambda/latest/dg/services-apigateway-errors.html."""

_MESSAGE_OF_S3: Final = re.compile(r"<Message>(.*?)</Message>")


class ApiDeployment:
    """Implements `pixel_gather_cli.deployment.deployment.RemoteDeployment` on the REST API."""

    def __init__(self, url: str, *, account: AwsAccount) -> None:
        """Take the API's address.

        Raises:
            DeploymentError: It is not an address.
        """
        host = urlsplit(url).hostname if url.startswith(("https://", "http://")) else None
        if not host:
            raise DeploymentError(f"{url!r} is not the address of an API: write https://host/stage")
        named = _REGION_OF_HOST.search(host)
        self._url = url.rstrip("/")
        self._account = account
        self._region = named[1] if named else None
        self._http = account.http(url)

    def submit(self, request: GatherRequest, *, force: bool) -> dict[str, Any]:
        """Start a gather, or find the one with the same request."""
        return self._send(
            "POST", "/gathers", query={"force": "true"} if force else {}, body=request.to_json()
        )

    def rank(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Rank scenes: return the table, or the line of a large ranking, which has an ``id``."""
        return self._send("POST", "/rankings", body=body)

    def make_table(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Start a table of points or zones, or find that of the same request."""
        return self._send("POST", "/tables", body=body)

    def plan_table(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Price a table of points or zones."""
        return self._send("POST", "/tables/plan", body=body)

    def table(self, id_: str) -> dict[str, Any]:
        """Describe a table, or a large ranking."""
        return self._send("GET", _path(id_, "table"))

    def keep_list(self, listed: LocalList) -> str:
        """Upload a list file unless a recent copy is there."""
        place = self._send(
            "POST",
            "/lists",
            body={"sha256": listed.sha256, "suffix": listed.suffix, "nbytes": listed.nbytes},
        )
        if place.get("upload"):
            self._upload(listed, place["upload"], place.get("headers", {}))
        return str(place["href"])

    def status(self, id_: str) -> dict[str, Any]:
        """Describe one gather or table."""
        return self._send_to_either("GET", id_)

    def list_(self, *, limit: int, token: str | None, state: str | None, kind: Kind) -> dict[str, Any]:
        """Return one page."""
        query = {"limit": str(limit), "token": token, "state": state}
        return self._send("GET", f"/{kind}s", query={name: text for name, text in query.items() if text})

    def stop(self, id_: str) -> dict[str, Any]:
        """Stop a gather or table."""
        return {"id": id_, "state": "stopped"} | self._send_to_either("DELETE", id_)

    def redrive(self, id_: str) -> dict[str, Any]:
        """Run the missing parts."""
        return {"id": id_, "state": "running"} | self._send_to_either("POST", id_, "/redrive")

    def limit(self, id_: str, workers: int) -> dict[str, Any]:
        """Change the workers of a running gather or table."""
        sent = self._send_to_either("POST", id_, f"/limit?workers={workers}")
        return {"id": id_, "state": "running"} | sent

    def _send_to_either(self, method: str, id_: str, rest: str = "") -> dict[str, Any]:
        """Send a request about a gather. If there is no such gather, send it about the table."""
        try:
            return self._send(method, _path(id_) + rest)
        except GatherNotFoundError as no_gather:
            try:
                return self._send(method, _path(id_, "table") + rest)
            except TableNotFoundError:
                raise GatherNotFoundError(none_with_id("gather or table", id_)) from None
            except DeniedError:  # the user may ask about gathers only, or the API has no tables
                said = f"{no_gather} (access to tables was denied)"
                raise GatherNotFoundError(said) from None

    def _send(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        """Send a request. A throttled one has done nothing and is sent again, unless it only reads."""
        pauses_s = () if method == "GET" else _PAUSES_S
        return _repeat(lambda: self._send_once(method, path, **content), ThrottledError, pauses_s)

    def _send_once(
        self, method: str, path: str, *, query: Mapping[str, str | None] | None = None, body: Any = None
    ) -> dict[str, Any]:
        asked = f"?{urlencode(query, quote_via=quote)}" if query else ""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = AWSRequest(
            method=method,
            url=f"{self._url}{path}{asked}",
            data=b"" if body is None else json.dumps(body).encode(),
            headers=headers,
        )
        self._sign(request)
        with aws_errors_in_words():
            answer = self._http.send(request.prepare())
        document = _object(answer.content)
        if answer.status_code not in _OK:
            raise _refusal(
                answer.status_code, answer.headers, document, text=answer.content.decode(errors="replace")
            )
        if document is None:
            raise DeploymentError(
                f"{self._url} answered {answer.status_code} without JSON: is it a deployment's API?"
            )
        return document

    def _sign(self, request: AWSRequest) -> None:
        """Sign the request by SigV4."""
        credentials = self._account.credentials()
        SigV4Auth(credentials, "execute-api", self._region or self._account.region()).add_auth(request)

    def _upload(self, listed: LocalList, url: str, headers: Mapping[str, str]) -> None:
        """Upload a file to a presigned address. If S3 does not answer or fails, the file is sent again."""
        _repeat(lambda: self._upload_once(listed, url, headers), UnreachableError, _PAUSES_OF_UPLOAD_S)

    def _upload_once(self, listed: LocalList, url: str, headers: Mapping[str, str]) -> None:
        listed.file.seek(0)
        request = AWSRequest(method="PUT", url=url, data=listed.file, headers=dict(headers))
        with aws_errors_in_words():
            answer = self._account.http(url).send(request.prepare())
        if answer.status_code not in _OK:
            found = _MESSAGE_OF_S3.search(answer.text)
            said = found[1] if found else "S3 does not say why"
            failed = _BY_STATUS.get(answer.status_code)
            kind = UnreachableError if failed is UnreachableError else DeploymentError
            raise kind(f"the list could not be uploaded ({answer.status_code}): {said}")


def _repeat[T](work: Callable[[], T], after: type[GatherError], pauses_s: Sequence[float]) -> T:
    """Do work, and again after each such error. Pauses have jitter, and are as long as the error asks for."""
    for pause_s in pauses_s:
        try:
            return work()
        except after as error:
            asked_s = error.retry_after_s if isinstance(error, ThrottledError) else None
            sleep(max(random.uniform(pause_s / 2, pause_s), asked_s or 0.0))  # noqa: S311 # not for secrets
    return work()


def _path(id_: str, kind: Kind = "gather") -> str:
    if "/" in id_:  # API Gateway would refuse it, and blame the credentials
        raise GatherNotFoundError(f"{id_[:80]!r} is no id of a gather or table: list shows the ids")
    return f"/{kind}s/{quote(id_, safe='')}"


def _object(content: bytes) -> dict[str, Any] | None:
    """Return the answer's JSON object; an empty answer is an empty object."""
    try:
        document = json.loads(content or b"{}")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _refusal(
    status: int, headers: Mapping[str, str], document: Mapping[str, Any] | None, *, text: str
) -> GatherError:
    """Return the error for a problem detail (RFC 9457), for API Gateway's own answer, or for any text."""
    texts = [text[:_LONGEST_TEXT]] if document is None else []
    document = document or {}
    code = str(document.get("type", "")).removeprefix(_PROBLEM)
    texts += (str(document[name]) for name in ("detail", "message", "Message", "title") if document.get(name))
    said = next(filter(None, map(_one_line, texts)), f"the API answered {status}")
    if status == 429 or (status, code) == _NOT_STARTED:  # noqa: PLR2004 # too many requests, RFC 6585
        return ThrottledError(f"too many requests to the API: {said}", retry_after_s=_seconds(headers))
    if code == RequestError.code:
        return _request_error(document, said)
    if code == BudgetError.code:
        return BudgetError(_text(document, "reason") or said, field=_text(document, "field"))
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status) or DeploymentError
    return kind(said if document.get("detail") else f"the API refused ({status}): {said}")


def _request_error(document: Mapping[str, Any], said: str) -> RequestError:
    """Return the error that the deployment has refused a request with. API Gateway itself names no field."""
    also_wrong = document.get("also_wrong")
    return RequestError(
        _text(document, "reason") or said,
        field=_text(document, "field") or "request",
        also_wrong={_one_line(name): _text(also_wrong, name) for name in also_wrong}
        if isinstance(also_wrong, Mapping)
        else None,
        is_missing=document.get("is_missing") is True,
    )


def _text(document: Mapping[str, Any], name: str) -> str:
    return _one_line(str(document.get(name, "")))


def _one_line(text: str) -> str:
    """Return a text as one line, without control characters."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _seconds(headers: Mapping[str, str]) -> float | None:
    text = headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None
