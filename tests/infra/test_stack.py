"""The whole stack passes all checkers, works beside others, and can be emulated."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.synthesized import ROOT, VARIANTS, Synthesized, add_stack, app_of, stub_in, synthesized

STUBBED_APP = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from support.synthesized import add_stack, stub_in
from aws_cdk import App
app = App()
add_stack(app, stub_in(Path(sys.argv[1])))
app.synth()
"""


@pytest.mark.parametrize("variant", VARIANTS)
def test_stack_passes_cdk_nag(variant: str) -> None:
    """Every finding of AWS Solutions' rules is acknowledged with a reason."""
    assert synthesized(**VARIANTS[variant]).template


@pytest.mark.long
def test_cdk_nag_would_say_so(tmp_path: Path) -> None:
    """One more wildcard is a finding. This shows that the check above works."""
    from aws_cdk import aws_iam as iam  # noqa: PLC0415 # after `synthesized` has put Node on the path

    app = app_of(tmp_path / "assembly")
    stack = add_stack(app, stub_in(tmp_path))
    role = iam.Role(stack, "Mighty", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    role.add_to_policy(iam.PolicyStatement(actions=["s3:*"], resources=["*"]))

    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()


@pytest.mark.long
def test_templates_pass_cfn_lint(tmp_path: Path) -> None:
    """The templates for AWS are valid. W3005 is ignored, because CDK repeats dependencies.

    A test below shows that the emulated one differs only in what executes the functions. What is in the
    standard one, and in that without sources, is in others, too. A template takes six seconds.
    """
    others = ("emulated", "as it is", "without sources")
    paths = [tmp_path / f"{name}.json" for name in VARIANTS if name not in others]
    for path in paths:
        path.write_text(json.dumps(synthesized(**VARIANTS[path.stem]).template))
    cfn_lint = Path(sys.executable).parent / "cfn-lint"

    done = subprocess.run(  # noqa: S603 # our own command
        [cfn_lint, "--ignore-checks", "W3005", "--", *paths], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("stage", ["test", "main-tables"])
def test_two_stages_live_in_one_account(stack: Synthesized, stage: str) -> None:
    """Two stages share no physical name and no metric."""
    other = synthesized(stage=stage, alarm_email="operator@example.org")

    assert names_in(stack.template)
    assert not names_in(stack.template) & names_in(other.template)


def names_in(template: Mapping[str, Any]) -> set[str]:
    """Return the physical names of resources that are unique in an account."""
    return {
        str(value)
        for resource in template["Resources"].values()
        for key, value in resource.get("Properties", {}).items()
        if key.endswith("Name")
        and isinstance(value, str)
        and resource["Type"] not in ("AWS::ApiGateway::Stage", "AWS::ApiGateway::Model", "AWS::IAM::Policy")
        and key != "MetricName"
    }


def test_stack_has_no_resources_that_run_code_of_others() -> None:
    """There are no custom resources and no nested stacks."""
    types = {each["Type"] for each in synthesized().template["Resources"].values()}

    assert not any(type_.startswith(("Custom::", "AWS::CloudFormation::")) for type_ in types)
    assert len(synthesized().of("AWS::Lambda::Function")) == 14


def test_everything_that_can_be_tagged_is() -> None:
    """All resources have tags for application and stage."""
    stack = synthesized(stage="test", alarm_email="operator@example.org")
    wanted = [{"Key": "application", "Value": "pixel-gather"}, {"Key": "stage", "Value": "test"}]
    kinds = {"Lambda::Function", "S3::Bucket", "StepFunctions::StateMachine", "Logs::LogGroup", "SNS::Topic"}
    for kind in kinds | {"ApiGateway::RestApi", "ApiGateway::Stage", "IAM::Role", "CloudWatch::Alarm"}:
        found = stack.properties(f"AWS::{kind}")
        assert found
        for properties in found:
            assert [each for each in properties["Tags"] if each["Key"] in ("application", "stage")] == wanted


def test_outputs_are_what_the_command_line_looks_for() -> None:
    """The command line finds outputs by these names."""
    assert synthesized().template["Outputs"].keys() == {
        "ApiUrl",
        "StateMachineArn",
        "TableStateMachineArn",
        "ArrayBucket",
        "ControlBucket",
        "DashboardName",
        "OperatorPolicyArn",
        "ReaderPolicyArn",
        "ScheduleGroup",
        "SchedulePolicyArn",
        "LostTicksArn",
        "ScheduleRoleArn",
        "TickFunctionArn",
        "CatalogHosts",
        "HttpsHosts",
        "Signing",
        "SourceBuckets",
    }


def test_emulated_stack_differs_in_runtime_architecture_and_code_alone() -> None:
    """The emulated stack differs from the one on AWS only in what executes the functions."""
    real, emulated = synthesized().template, synthesized(**VARIANTS["emulated"]).template
    machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    functions = [each for each in emulated["Resources"].values() if each["Type"] == "AWS::Lambda::Function"]

    assert {each["Properties"]["Runtime"] for each in functions} == {"provided.al2023"}
    assert {tuple(each["Properties"]["Architectures"]) for each in functions} == {(machine,)}
    assert real != emulated
    assert without_execution(real) == without_execution(emulated)


def without_execution(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy of a template without runtimes, architectures and code.

    The names of published versions end with a digest of these, which is left out, too.
    """
    text = json.dumps(template)
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Lambda::Version":
            text = text.replace(name, name[:-32])
    copied: dict[str, Any] = json.loads(text)
    for resource in copied["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            for name in ("Runtime", "Architectures", "Code"):
                del resource["Properties"][name]
            resource["Metadata"] = {
                key: value
                for key, value in resource.get("Metadata", {}).items()
                if not key.startswith("aws:asset:")
            }
    return copied


@pytest.mark.long
def test_synthesis_needs_no_credentials_and_no_network(node_commands: Path, tmp_path: Path) -> None:
    """The pinned command line works without an account, a Region and a network."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nowhere = "http://127.0.0.1:9"
    environment |= {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
        "HTTPS_PROXY": nowhere,
        "HTTP_PROXY": nowhere,
        "NO_PROXY": "",
    }
    (tmp_path / "app.py").write_text(STUBBED_APP)
    app = f"{sys.executable} {tmp_path / 'app.py'} {tmp_path}"

    done = subprocess.run(  # noqa: S603 # our own command
        [node_commands / "cdk", "synth", "--quiet", "--app", app, "--output", tmp_path / "assembly"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "assembly" / "PixelGather-main.template.json").exists()
