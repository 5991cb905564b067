"""Users who have only the policies that the stack provides."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Self

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from pixel_gather_emulator.deploy import DeployedStack
from support.lambda_functions import Context, cold_start


@dataclass(frozen=True)
class User:
    """One user of the deployment's account."""

    deployment: DeployedStack
    access_key: str
    secret_key: str

    @classmethod
    def with_policies(cls, deployment: DeployedStack, name: str, *outputs: str) -> Self:
        """Make a user with the policies that some outputs of the stack name."""
        iam = deployment.client("iam")
        iam.create_user(UserName=name)
        for output in outputs:
            iam.attach_user_policy(UserName=name, PolicyArn=deployment.outputs[output])
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return cls(deployment, key["AccessKeyId"], key["SecretAccessKey"])

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the variables that lead the AWS tools to the emulator as this user.

        They name no part of the deployment.
        """
        return dict(self.deployment.emulator.variables) | {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    @property
    def environment(self) -> dict[str, str]:
        """Return a complete environment for a command."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("PIXEL_GATHER_")}
        return self.deployment.emulator.environment(kept) | dict(self.variables)

    def client(self, service: str) -> Any:
        """Return a boto3 client of this user."""
        session = boto3.Session(self.access_key, self.secret_key, region_name=self.deployment.region)
        emulator = self.deployment.emulator
        return session.client(
            service,
            endpoint_url=emulator.endpoint,
            verify=str(emulator.bundle),
            config=Config(proxies={}, retries={"mode": "standard"}),
        )


def function_of(deployment: DeployedStack, handler: str) -> dict[str, Any]:
    """Return the configuration of a function of this handler. Workers have two, with equal rights."""
    functions = deployment.client("lambda").list_functions()["Functions"]
    return dict(next(each for each in functions if each["Handler"].endswith(f".{handler}.handler")))


def user_of(deployment: DeployedStack, handler: str) -> User:
    """Return a user with the rights of a function's role and no others."""
    role, name = function_of(deployment, handler)["Role"].rpartition("/")[2], f"as-{handler}-{token_hex(4)}"
    user = User.with_policies(deployment, name)
    iam = deployment.client("iam")
    for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
        iam.put_user_policy(UserName=name, PolicyName=policy, PolicyDocument=json.dumps(document))
    return user


def denied(call: Callable[[], Any]) -> None:
    """Assert that a call is denied."""
    with pytest.raises(ClientError) as error:
        call()
    assert error.value.response["Error"]["Code"] in {"AccessDenied", "AccessDeniedException"}, call


def handled(users: Mapping[str, User], name: str, given: Any, *, left_s: float = 900) -> Any:
    """Return what a handler answers in this process, with the rights of its role.

    The emulator gives functions its operator's rights.
    """
    user = users[name]
    deployed = function_of(user.deployment, name)["Environment"]["Variables"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the rights of the function before
        with cold_start(patch, name, **deployed, **user.variables) as module:
            return json.loads(json.dumps(module.handler(given, Context(left_s=left_s))))
