"""Builds the CDK app: read the settings, create the stack, synthesize."""

import platform
import sys
from functools import cache
from typing import Final

from aws_cdk import App, Validations
from aws_cdk import aws_lambda as lambda_
from cdk_nag import AwsSolutionsChecks

from handlers.openapi.document import body_schemas
from infra.bundle.bundle import bundle, unzipped_nbytes
from infra.cdk_context import SettingsError
from infra.gather_stack import GatherStack
from infra.settings import Settings

_LAMBDA_MACHINE: Final = "aarch64"


def main() -> None:
    """Write the cloud assembly to the folder that the CDK command line names."""
    app = App()
    settings = Settings.from_context(app.node.get_all_context())
    machine = platform.machine().replace("arm64", "aarch64") if settings.emulated else _LAMBDA_MACHINE

    @cache
    def code(package: str) -> lambda_.Code:
        folder = bundle(package, machine=machine, is_emulated=settings.emulated)
        print(f"{package}: {unzipped_nbytes(folder) / 1e6:.1f} MB unzipped", file=sys.stderr)  # noqa: T201 # cdk shows it
        return lambda_.Code.from_asset(str(folder))

    GatherStack(
        app,
        settings.stack_name,
        settings=settings,
        code=code,
        body_schemas=body_schemas(),
    )
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


try:
    main()
except SettingsError as error:  # by the settings alone, or by what they make of the stack
    sys.exit(str(error))
