"""How to get credentials for AWS: words that several errors share."""

from typing import Final

HOW_TO_SIGN_IN: Final = "set AWS_PROFILE or sign in, for example with `aws sso login`"
NO_REASON: Final = (
    f"it gave no reason (400): the credentials may have expired ({HOW_TO_SIGN_IN}), the bucket may lie in "
    "another Region (--region), or the object may be encrypted with a customer's key (SSE-C)"
)
"""S3 answers 400 to a HEAD in all of these cases. Answers to a HEAD have no body that could say why."""

NO_CREDENTIALS: Final = (
    f"no AWS credentials were found: {HOW_TO_SIGN_IN}; where the bucket is public, give --unsigned"
)
