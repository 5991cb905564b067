"""Where the credentials for S3 come from, and what to say where there are none.

obstore signs with the environment's keys, a container's role and an instance's role by itself. Profiles and
single sign-on are known to boto3 alone, which costs 0.3 s and is imported only for them.
"""

import os
from pathlib import Path
from typing import Any, Final

from pixel_gather.errors import DeniedError
from pixel_gather.extras import check_extra

HOW_TO_SIGN_IN: Final = "set AWS_PROFILE or sign in, for example with `aws sso login`"
NO_CREDENTIALS: Final = (
    f"no AWS credentials were found: {HOW_TO_SIGN_IN}; where the bucket is public, give --unsigned"
)
_OBSTORE_READS_BY_ITSELF: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)


def find_credentials(profile: str | None) -> Any:
    """Return boto3's credentials where only boto3 knows them, or None where obstore finds them itself.

    Args:
        profile: The profile that was asked for; None for that of the environment, if any.

    Raises:
        DeniedError: There is no such profile, or there are no credentials at all.
        MissingExtraError: boto3 is needed and not installed.
    """
    wants_profile = profile is not None or bool(os.environ.get("AWS_PROFILE"))
    if not wants_profile:
        if any(name in os.environ for name in _OBSTORE_READS_BY_ITSELF):
            return None
        if not _has_profiles():
            if _metadata_is_off():
                raise DeniedError(NO_CREDENTIALS)
            return None
    check_extra("aws", "AWS profiles")
    import boto3  # noqa: PLC0415 # see above
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 # as above

    from pixel_gather.adapters.aws.aws_errors import aws_errors_in_words  # noqa: PLC0415 # as above

    with aws_errors_in_words():
        session = boto3.Session(profile_name=profile)
        if session.get_credentials() is None:
            raise DeniedError(NO_CREDENTIALS)
        return Boto3CredentialProvider(session)


def _has_profiles() -> bool:
    try:
        return (Path.home() / ".aws").is_dir()
    except RuntimeError:  # a user without a home, as in many containers
        return False


def _metadata_is_off() -> bool:
    """Tell whether the user has said that this machine has no instance role, as for the AWS tools."""
    return os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
