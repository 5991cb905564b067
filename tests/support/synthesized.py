"""The stack's CloudFormation template, with empty packages for the functions.

CDK is imported where it is used first. It takes five seconds and starts Node: too much for every process that
only collects tests.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # jsii: the locked Node
os.environ["CDK_VALIDATION"] = (
    "false"  # its first time takes 8 s of CPU in each process, and cfn-lint sees as much
)

from infra.settings import Settings

if TYPE_CHECKING:
    from aws_cdk import App
    from aws_cdk import aws_lambda as lambda_

    from infra.gather_stack import GatherStack

# ruff: noqa: PLC0415 # see above

ROOT = Path(__file__).resolve().parents[2]
BODY_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "GatherRequest": {"type": "object", "required": ["sources", "window"]},
    "List": {"type": "object", "required": ["sha256", "suffix", "nbytes"]},
}
SOURCES = [
    {"name": "scenes", "region": "us-west-2", "requester_pays": True},
    {"name": "open-data", "unsigned": True},
]
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "as it is": {},
    "without sources": {"source_buckets": [], "api_log_role": False},
    "emulated": {"emulated": True},
    "with a schedule, telling somebody": {
        "alarm_email": "operator@example.org",
        "output_prefix": "a/b/",
        "retain_arrays": False,
        "catalog_hosts": ["stac.example.org"],
        "schedules": [
            {
                "name": "daily",
                "every": "cron(0 6 * * ? *)",
                "request": {
                    "sources": {"stac": {"api": "https://stac.example.org/v1", "assets": ["red"]}},
                    "window": {"bbox": [11, 46, 11.1, 46.1]},
                    "output": {"append_to": "bolzano"},
                },
                "overlap_days": 3,
            }
        ],
    },
    "of a young account, with a key": {
        "max_usd_per_month": 50,
        "account_concurrency": 10,
        "alarm_usd_per_day": "none",
        "log_days": 14,
        "tags": {"cost-centre": "glaciers"},
        "canary_hours": 6,
        "catalog": "s3://catalogs/europe.parquet",
        "kms_key": "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        "measured": {"COLD_START": 1.5},
        "catalog_hosts": ["stac.example.org", "stac.example.org:8443"],
        "signing": ["planetary-computer", "earthdata"],
        "earthdata_secret": "earthdata/token",
        "source_buckets": [
            {"name": "sealed", "kms_key": "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef"}
        ],
    },
}
"""Contexts that together have every setting that adds, removes or changes resources."""

WITH_ALL: Mapping[str, Any] = {
    "output_prefix": "cubes/",
    "catalog": "s3://catalogs/all/europe.parquet",
    "canary_hours": 6,
    "max_usd_per_month": 50,
    "alarm_email": "operator@example.org",
}
"""A context with every function, every alarm and every topic. Modules share its stack."""


@dataclass(frozen=True, slots=True)
class Synthesized:
    """One stack's template."""

    template: Mapping[str, Any]

    def of(self, type_: str) -> dict[str, dict[str, Any]]:
        """Return the resources of a type, such as ``AWS::S3::Bucket``, by their logical ids."""
        return {name: each for name, each in self.template["Resources"].items() if each["Type"] == type_}

    def properties(self, type_: str) -> list[dict[str, Any]]:
        """Return the properties of all resources of a type."""
        return [each["Properties"] for each in self.of(type_).values()]

    def functions(self) -> dict[str, dict[str, Any]]:
        """Return the functions' properties by the module that they run.

        Two functions of one module are both there.
        """
        return {_name_of(each): each for each in self.properties("AWS::Lambda::Function")}

    def machine(self, name: str = "machine") -> dict[str, Any]:
        """Return the properties of a state machine: ``machine`` for gathers, or ``tables``."""
        machines = self.of("AWS::StepFunctions::StateMachine")
        (found,) = (each for each in machines if self._named(each) == f"<{name}>")
        properties: dict[str, Any] = machines[found]["Properties"]
        return properties

    def definition(self, name: str = "machine") -> dict[str, Any]:
        """Return a state machine's definition. Modules of ``handlers`` replace the functions' ARNs."""
        machine = self.machine(name)
        definition: dict[str, Any] = json.loads(self.show(machine["DefinitionString"]))
        return definition

    def show(self, value: Any) -> str:
        """Return a resolved text with its references in angle brackets, named by purpose."""
        match value:
            case {"Ref": name}:
                return self._named(name)
            case {"Fn::GetAtt": [name, _]}:
                return self._named(name)
            case {"Fn::Join": [separator, parts]}:
                return str(separator).join(self.show(part) for part in parts)
            case _:
                return str(value)

    def _named(self, name: str) -> str:
        if name.startswith("AWS::"):
            return f"<{name.removeprefix('AWS::').lower()}>"
        resource = self.template["Resources"][name]
        match resource["Type"]:
            case "AWS::S3::Bucket":
                return "<arrays>" if "VersioningConfiguration" in resource["Properties"] else "<control>"
            case "AWS::Lambda::Function":
                return f"<{_name_of(resource['Properties'])}>"
            case "AWS::Lambda::Version":
                return self.show(resource["Properties"]["FunctionName"])
            case "AWS::StepFunctions::StateMachine":
                return "<tables>" if name.startswith("Tables") else "<machine>"
            case type_:
                return f"<{type_.rpartition('::')[2].lower()}>"


def _name_of(function: Mapping[str, Any]) -> str:
    """Return the module that a function runs. The smaller one of two has the prefix ``small_``."""
    from infra.functions import SMALL_WORKER_MIB

    module: str = function["Handler"].split(".")[-2]
    is_small = module == "gather_shard" and function["MemorySize"] == SMALL_WORKER_MIB
    return f"small_{module}" if is_small else module


def synthesized(body_schemas: Mapping[str, Any] = BODY_SCHEMAS, **context: Any) -> Synthesized:
    """Return the stack of a context. The same context is synthesized once, which takes seconds.

    Raises:
        RuntimeError: The context is one of `VARIANTS`, and cdk-nag has findings. The message has them.
    """
    return _synthesized(json.dumps(body_schemas), json.dumps(context, sort_keys=True))


@cache
def _synthesized(body_schemas: str, context: str) -> Synthesized:
    with tempfile.TemporaryDirectory() as folder:
        assembly = Path(folder) / "assembly"
        given = json.loads(context)
        app = app_of(assembly, is_checked=given in VARIANTS.values(), **given)
        code = stub_in(Path(folder), content=f"context = {context!r}\n")
        stack = add_stack(app, code, body_schemas=json.loads(body_schemas))
        app.synth()
        return Synthesized(json.loads((assembly / stack.template_file).read_text()))


def app_of(assembly: Path, *, is_checked: bool = True, **context: Any) -> App:
    """Return an app with the context of cdk.json and these keys. cdk-nag checks it when it is synthesized.

    Unless it is not to: that takes a third of the time.
    """
    from aws_cdk import App, Validations
    from cdk_nag import AwsSolutionsChecks

    standard = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(context=standard | {"source_buckets": SOURCES} | context, outdir=str(assembly))
    if is_checked:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def add_stack(
    app: App,
    code: lambda_.Code,
    *,
    body_schemas: Mapping[str, Any] = BODY_SCHEMAS,
) -> GatherStack:
    """Add the stack of the app's context."""
    from infra.gather_stack import GatherStack

    settings = Settings.from_context(app.node.get_all_context())
    return GatherStack(
        app,
        settings.stack_name,
        settings=settings,
        code=lambda _: code,
        body_schemas=body_schemas,
    )


def stub_in(folder: Path, *, content: str = "") -> lambda_.Code:
    """Return an empty package, because real ones take minutes."""
    from aws_cdk import aws_lambda as lambda_

    stub = folder / "stub"
    stub.mkdir(parents=True)
    (stub / "stub.py").write_text(content)
    return lambda_.Code.from_asset(str(stub))
