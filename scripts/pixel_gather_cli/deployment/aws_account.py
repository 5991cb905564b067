"""Region, profile, endpoint, certificates and proxies, found as the AWS tools find them."""

import os
from typing import Any

import botocore.session
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import NoCredentialsError, NoRegionError
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

from pixel_gather.core.errors import DeploymentError
from pixel_gather.io.aws.aws_errors import answer_unless, aws_errors_in_words

_TIMEOUT_S = 60


class AwsAccount:
    """The credentials and settings of the user who runs the command."""

    def __init__(self, *, region: str | None, profile: str | None, endpoint: str | None) -> None:
        """Take the given settings. None: the environment and ~/.aws decide."""
        self._session: Any = botocore.session.Session(profile=profile)
        self._endpoint = endpoint
        region = region or os.environ.get("AWS_REGION")  # boto3 alone reads only AWS_DEFAULT_REGION
        if region:
            self._session.set_config_variable("region", region)
        self._outputs: dict[str, dict[str, str]] = {}

    def client(self, service: str) -> Any:
        """Return boto3's client of a service."""
        with aws_errors_in_words():
            return self._session.create_client(service, endpoint_url=self._endpoint)

    def credentials(self) -> ReadOnlyCredentials:
        """Return the current credentials."""
        with aws_errors_in_words():
            found = self._session.get_credentials()
            if found is None:
                raise NoCredentialsError
            return found.get_frozen_credentials()

    def region(self) -> str:
        """Return the Region."""
        with aws_errors_in_words():
            region = self._session.get_config_variable("region")
            if not region:
                raise NoRegionError
            return str(region)

    def http(self, url: str) -> URLLib3Session:
        """Return an HTTP session for an address outside AWS's services, with the same certificates."""
        with aws_errors_in_words():
            bundle = self._session.get_config_variable("ca_bundle")
        return URLLib3Session(verify=bundle or True, proxies=get_environ_proxies(url), timeout=_TIMEOUT_S)

    def stack_output(self, stack: str, name: str) -> str:
        """Return an output of a stack."""
        if stack not in self._outputs:
            self._outputs[stack] = self._describe(stack)
        try:
            return self._outputs[stack][name]
        except KeyError:
            raise DeploymentError(
                f"the stack {stack} has no output {name}: --stack names another; "
                "if it is an older version of Pixel Gather, deploy it again"
            ) from None

    def _describe(self, stack: str) -> dict[str, str]:
        client = self.client("cloudformation")
        answer = answer_unless({"ValidationError"}, lambda: client.describe_stacks(StackName=stack))
        if answer is None:
            raise DeploymentError(
                f"there is no stack {stack} in {client.meta.region_name}: --stack and --region name another"
            )
        (found,) = answer["Stacks"]
        return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", ())}
