"""As much of Azure's blob service as a gather needs, over the objects of a `CloudStore`."""

from typing import override
from urllib.parse import unquote
from xml.sax.saxutils import escape

from support.cloud_store import ACCOUNT, MODIFIED, Answer, S3Handler, etag_of


class AzureHandler(S3Handler):
    """Containers are the store's buckets. The path begins with the account, as at Azurite."""

    @override
    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        path, query = super()._asked()
        return path.removeprefix(f"{ACCOUNT}/"), query

    @override
    def _get(self, body: bytes) -> Answer:
        del body
        path, query = self._asked()
        if query.get("comp") == ["list"]:
            return 200, self._listed(path.rstrip("/"), query), {}
        status, content, headers = self._read(path)
        if status == 404:  # Not Found
            content = b"<Error><Code>BlobNotFound</Code></Error>"
        return status, content, headers

    @override
    def _listed(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        """List without quotes around ETags, as Azure does."""
        objects, folders = self._below(bucket, query)
        found = [
            f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>{MODIFIED}</Last-Modified>"
            f"<Etag>{etag_of(content).strip('"')}</Etag><Content-Length>{len(content)}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for key, content in objects.items()
        ]
        found += [f"<BlobPrefix><Name>{escape(each)}</Name></BlobPrefix>" for each in folders]
        blobs = f"<Blobs>{''.join(found)}</Blobs><NextMarker />"
        return f"<EnumerationResults>{blobs}</EnumerationResults>".encode()

    @override
    def _put(self, body: bytes) -> Answer:
        path, query = self._asked()
        if query.get("comp") == ["block"]:
            self.there.parts.setdefault(query["blockid"][0], {})[0] = body
            return 201, b"", {}
        if query.get("comp") == ["blocklist"]:
            ids = [each.partition("<")[0] for each in body.decode().split("<Uncommitted>")[1:]]
            body = b"".join(self.there.parts[each][0] for each in ids)
        if self.there.put(path, body, self.headers):
            return 201, b"", {"ETag": etag_of(body)}
        is_new = self.headers["If-None-Match"] is not None
        code = "BlobAlreadyExists" if is_new else "ConditionNotMet"
        return 409 if is_new else 412, f"<Error><Code>{code}</Code></Error>".encode(), {}

    @override
    def _post(self, body: bytes) -> Answer:
        """Remove blobs: a request for each lies in the body."""
        lines = body.decode().splitlines()
        boundary = lines[0]
        parts = []
        for number, line in enumerate(each for each in lines if each.startswith("DELETE ")):
            path = unquote(line.split()[1].partition("?")[0]).lstrip("/").removeprefix(f"{ACCOUNT}/")
            with self.there.lock:
                was_there = self.there.objects.pop(path, None) is not None
            said = "202 Accepted" if was_there else "404 Not Found"
            parts.append(
                f"{boundary}\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                f"HTTP/1.1 {said}\r\nx-ms-error-code: {'' if was_there else 'BlobNotFound'}\r\n\r\n"
            )
        answer = "".join(parts) + f"{boundary}--\r\n"
        return 202, answer.encode(), {"Content-Type": f"multipart/mixed; boundary={boundary[2:]}"}
