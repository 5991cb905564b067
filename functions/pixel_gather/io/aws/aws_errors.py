"""Translate boto3's errors to errors with one sentence each. Used for every call of AWS's APIs."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSLError,
    SSOError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as NoConnectionError

from pixel_gather.core.errors import (
    DeniedError,
    DeploymentError,
    GatherError,
    ThrottledError,
    UnreachableError,
)
from pixel_gather.io.aws.sign_in import HOW_TO_SIGN_IN, NO_REASON

_BUSY: Final = frozenset(
    {
        "429",
        "503",  # answers to a HEAD have no other code
        "ExecutionLimitExceeded",
        "KmsThrottlingException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_TIMED_OUT: Final = frozenset({"RequestTimeout", "RequestTimeoutException"})
"""S3 answers the first one by 400."""

_SERVER_ERROR: Final = 500
_DENIED: Final = frozenset(
    {"403", "AccessDenied", "AccessDeniedException", "KmsAccessDeniedException", "UnauthorizedOperation"}
)
_EXPIRED: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
)

_OF_HEAD: Final = "400"
_INVALID: Final = frozenset(
    {
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)

NOT_THERE: Final = frozenset({"404", "403", "NoSuchKey", "AccessDenied"})
"""S3 answers 403 for a missing object if the caller may not list the bucket."""

type _Meaning = tuple[tuple[type[BotoCoreError], ...], type[GatherError], str]
_BY_CLASS: Final[tuple[_Meaning, ...]] = (
    ((NoCredentialsError,), DeniedError, f"no AWS credentials were found: {HOW_TO_SIGN_IN}"),
    (
        (PartialCredentialsError, CredentialRetrievalError, SSOError, TokenRetrievalError),
        DeniedError,
        f"the AWS credentials cannot be used ({{said}}): {HOW_TO_SIGN_IN}",
    ),
    ((ProfileNotFound,), DeniedError, "{said}: check --profile, AWS_PROFILE and ~/.aws/config"),
    ((NoRegionError,), DeploymentError, "no AWS Region is set: give --region or set AWS_REGION"),
    (
        (SSLError,),
        UnreachableError,
        "the certificate is not trusted ({said}): set AWS_CA_BUNDLE to a file of trusted ones",
    ),
    (
        (HTTPClientError, NoConnectionError),
        UnreachableError,
        "there was no answer ({said}): check the address, Region and network",
    ),
)


@contextmanager
def aws_errors_in_words() -> Iterator[None]:
    """Run calls of boto3 and translate their errors to a `GatherError` with one sentence.

    Raises:
        DeniedError: Credentials are missing or expired, or do not allow the call.
        ThrottledError: There were too many calls.
        UnreachableError: There was no answer, or AWS failed.
        DeploymentError: AWS refused the call for another reason.
    """
    try:
        yield
    except ClientError as error:
        raise _translate_answer(error) from error
    except BotoCoreError as error:
        raise _translate_client_error(error) from error


def answer_unless[T](codes: Collection[str], call: Callable[[], T]) -> T | None:
    """Return what a call of boto3 answers; None if AWS answers an error of one of these codes.

    Other errors are those of `aws_errors_in_words`.
    """
    with aws_errors_in_words():
        try:
            return call()
        except ClientError as error:
            if code_of(error) not in codes:
                raise
            return None


def code_of(error: ClientError) -> str:
    """Return AWS's code of an error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _translate_answer(error: ClientError) -> GatherError:
    code, call = code_of(error), error.operation_name
    said = str(error.response.get("Error", {}).get("Message", "")).strip().rstrip(".") or code
    if code in _BUSY:
        return ThrottledError(f"AWS is asked too often ({code} at {call}): try again in a few seconds")
    if (why := _why_denied(code, call, said)) is not None:
        return DeniedError(why)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code and (status >= _SERVER_ERROR or code in _TIMED_OUT):
        return UnreachableError(f"AWS could not answer {call} ({code}: {said}): try again in a minute")
    return DeploymentError(_why_refused(code, call, said))


def _why_denied(code: str, call: str, said: str) -> str | None:
    """Say what is wrong with the credentials; None if nothing is."""
    if code == _OF_HEAD:
        return f"AWS refused {call}, and {NO_REASON}"
    if code in _EXPIRED:
        return f"the AWS credentials have expired: {HOW_TO_SIGN_IN}"
    if code in _INVALID:
        return f"AWS does not know these credentials ({said}): {HOW_TO_SIGN_IN}"
    return f"these credentials may not call {call}: {said}" if code in _DENIED else None


def _why_refused(code: str, call: str, said: str) -> str:
    if code == "StateMachineDoesNotExist":
        return f"there is no such state machine ({said}): check the ARN, account and Region"
    if said:
        return f"AWS refused {call} ({code}): {said}"
    return f"the answer to {call} is not from AWS: check AWS_ENDPOINT_URL and any proxy"


def _translate_client_error(error: BotoCoreError) -> GatherError:
    said = " ".join(str(error).split()).rstrip(".")
    for kinds, meaning, sentence in _BY_CLASS:
        if isinstance(error, kinds):
            return meaning(sentence.format(said=said))
    return DeploymentError(f"the AWS client failed: {said}")
