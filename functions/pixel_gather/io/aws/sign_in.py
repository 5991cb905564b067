"""How to get credentials for AWS: words that several errors share."""

from typing import Final

HOW_TO_SIGN_IN: Final = "set AWS_PROFILE or sign in, for example with `aws sso login`"
NO_CREDENTIALS: Final = (
    f"no AWS credentials were found: {HOW_TO_SIGN_IN}; where the bucket is public, give --unsigned"
)
