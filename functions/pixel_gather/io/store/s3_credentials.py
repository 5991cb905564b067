"""Find the credentials for S3, or say what to do.

obstore reads the keys of the environment, a container's role and an instance's role itself. Only boto3 knows
profiles and single sign-on. Importing it costs 0.3 s, so that happens only where they are needed.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from pixel_gather.core.errors import DeniedError
from pixel_gather.core.extras import check_extra
from pixel_gather.io.aws.sign_in import HOW_TO_SIGN_IN, NO_CREDENTIALS

_OBSTORE_READS_BY_ITSELF: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)

_KEY_AND_SECRET: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_READ_BY_OBSTORE: Final = (
    *_OBSTORE_READS_BY_ITSELF,
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)
_ASK_AGAIN_AFTER: Final = timedelta(minutes=5)
"""Credentials of boto3 hold for ten minutes at least. obstore would use them for thirty."""


def find_credentials(profile: str | None) -> Any:
    """Return boto3's credentials, or None where obstore finds them itself.

    An empty variable counts as unset, as for the AWS tools. obstore would take it as it is, so it is removed.
    Without a profile, it is that of the environment, if any.

    Raises:
        DeniedError: There is no such profile, or there are no credentials, or only half of them.
        MissingExtraError: boto3 is needed and not installed.
    """
    for name in _READ_BY_OBSTORE:
        if os.environ.get(name) == "":
            del os.environ[name]
    wants_profile = profile is not None or bool(os.environ.get("AWS_PROFILE"))
    if not wants_profile:
        _check_both_are_set()
        if any(name in os.environ for name in _OBSTORE_READS_BY_ITSELF):
            return None
        if not _has_profiles():
            if _metadata_is_off():
                raise DeniedError(NO_CREDENTIALS)
            return None
    check_extra("aws", "AWS profiles")
    import boto3  # noqa: PLC0415 # see above
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 # as above

    from pixel_gather.io.aws.aws_errors import aws_errors_in_words  # noqa: PLC0415 # as above

    with aws_errors_in_words():
        session = boto3.Session(profile_name=profile)
        if session.get_credentials() is None:
            raise DeniedError(NO_CREDENTIALS)
        return Boto3CredentialProvider(session, ttl=_ASK_AGAIN_AFTER)


def _check_both_are_set() -> None:
    there = [name for name in _KEY_AND_SECRET if name in os.environ]
    if len(there) == 1:
        (missing,) = set(_KEY_AND_SECRET) - set(there)
        raise DeniedError(f"{there[0]} is set and {missing} is not: set both, or {HOW_TO_SIGN_IN}")


def _has_profiles() -> bool:
    try:
        return (Path.home() / ".aws").is_dir()
    except RuntimeError:  # a user without a home, as in many containers
        return False


def _metadata_is_off() -> bool:
    """Tell whether the user has switched off the instance metadata service, as for the AWS tools."""
    return os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
