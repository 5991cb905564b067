"""How a deployment refuses: errors of starting, watching and stopping gathers on AWS."""

from pixel_gather.errors import GatherError


class GatherNotFoundError(GatherError):
    """There is no gather of this id, or it ended more than 90 days ago."""

    code = "gather_not_found"


class NotRedrivableError(GatherError):
    """The gather has nothing that could be run again: the message says what to do instead."""

    code = "not_redrivable"


class ThrottledError(GatherError):
    """Asked too often: ask again later."""

    code = "throttled"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        """Say who is busy, and when to come back where that was said."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeniedError(GatherError):
    """Credentials are missing or expired, or do not allow this."""

    code = "access_denied"


class UnreachableError(GatherError):
    """No answer: the network, the address or the certificate is wrong."""

    code = "unreachable"


class DeploymentError(GatherError):
    """The deployment is not there, not configured, or answered what it should not."""

    code = "deployment_error"
