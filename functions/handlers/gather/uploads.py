"""Lets callers upload a list from their own machine to the control bucket."""

import base64
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from handlers.api.control_plane import ControlPlane
from pixel_gather.core.errors import RequestError
from pixel_gather.core.request.given_fields import check_names
from pixel_gather.io.aws.aws_errors import aws_errors_in_words
from pixel_gather.io.aws.uploaded_lists import is_uploaded, key_of_list

if TYPE_CHECKING:  # for the description, which needs msgspec
    from handlers.gather.answers import ListPlace

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SUFFIX: Final = re.compile(r"[a-z0-9]{1,12}(\.[a-z0-9]{1,7})?")
_LARGEST_NBYTES: Final = 5 * 2**30
"""S3 takes no more in one PUT."""

_VALID_S: Final = 900
_FIELDS: Final = frozenset({"sha256", "suffix", "nbytes"})


def lend_place(given: Any, plane: ControlPlane) -> "ListPlace":
    """Return the href of a list, and where to upload it unless a recent copy is there.

    The content is given by its ``sha256``, ``nbytes`` and the ``suffix`` of its format.

    Returns:
        ``href``, ``upload`` and ``headers``. ``upload`` is an address to PUT to within 15 minutes, or None.
        The headers have to be sent with the PUT. With them, S3 takes no other content.
    """
    sha256, suffix, nbytes = _check_upload(given)
    bucket, key = plane.settings.control_bucket, key_of_list(sha256, suffix)
    place: ListPlace = {"href": f"s3://{bucket}/{key}", "upload": None, "headers": {}}
    with aws_errors_in_words():
        if is_uploaded(plane.s3, bucket, key):
            return place
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        place["upload"] = plane.s3.generate_presigned_url(
            "put_object",
            Params={"Bucket": bucket, "Key": key, "ChecksumSHA256": checksum, "ContentLength": nbytes},
            ExpiresIn=_VALID_S,
        )
        place["headers"] = {"x-amz-checksum-sha256": checksum}
    return place


def _check_upload(given: Any) -> tuple[str, str, int]:
    if not isinstance(given, Mapping):
        raise RequestError("it must be an object with sha256, suffix and nbytes", field="request")
    check_names(given, _FIELDS)
    sha256, suffix, nbytes = given.get("sha256"), given.get("suffix"), given.get("nbytes")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise RequestError("it must be the SHA-256 of the list, 64 digits of 0-9 and a-f", field="sha256")
    if not isinstance(suffix, str) or not _SUFFIX.fullmatch(suffix):
        raise RequestError("it must be the ending of the list's name, such as csv", field="suffix")
    if not isinstance(nbytes, int) or isinstance(nbytes, bool) or not 1 <= nbytes <= _LARGEST_NBYTES:
        raise RequestError(f"it must be the size of the list, 1 to {_LARGEST_NBYTES:,} bytes", field="nbytes")
    return sha256, suffix, nbytes
