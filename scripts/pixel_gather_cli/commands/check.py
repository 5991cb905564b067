"""``pixel-gather check``: gather samples in a deployment and compare what is seen with what is assumed."""

import json
import sys
from copy import replace
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
import zarr
from rich.console import Console
from rich.table import Column, Table
from zarr.storage import ObjectStore

from pixel_gather.core.estimate import assumptions
from pixel_gather.features.verify.verify import verify
from pixel_gather.io.atomic_write import replacing
from pixel_gather.io.aws.aws_errors import aws_errors_in_words
from pixel_gather.io.store.object_store import open_place
from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_cli.deployment.aws_account import AwsAccount
from pixel_gather_cli.deployment.failures import fail_on_purpose
from pixel_gather_cli.deployment.findings import (
    Finding,
    alarms,
    architectures,
    check_needed,
    heartbeats,
    measure,
)
from pixel_gather_cli.deployment.remote import deployer_options
from pixel_gather_cli.deployment.smoke import DeployedStack, Smoke, gather_samples
from pixel_gather_cli.json_output import json_option, print_json
from pixel_gather_cli.request_options import file_here

_EMULATED = (
    "These are figures of the emulator on this machine, and not of AWS. They show that the check runs."
)


@click.command("check")
@deployer_options
@click.option(
    "--failures",
    is_flag=True,
    help="Also let a gather fail and a function run out of memory. Takes minutes; notices and alarms come.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False),
    callback=file_here,
    metavar="FILE",
    help="Write the measured figures into this file of settings: cdk.context.json.",
)
@json_option
def check_command(*, stack: str, failures: bool, save: Path | None, as_json: bool, **access: Any) -> int:
    """Gather 20 small files in a deployment, and compare what is seen with what is assumed.

    The files are made and uploaded by the command. It needs the rights of whoever deploys. With --save, the
    next deployment's plans use the measured figures. The exit code is 1 if something does not work.

    \b
    scripts/deploy check
    scripts/deploy check --failures --save cdk.context.json
    """
    settings = {} if save is None else _settings_of(save)
    account = AwsAccount(**access)
    there = DeployedStack(account, stack)
    if save is not None and there.is_emulated:
        raise click.UsageError("figures of the emulator are not those of AWS: leave out --save")
    smoke = gather_samples(there)
    stores = StoreSettings(**access)
    measured = measure(
        smoke, opened_s=_opened_s(smoke, stores), account_concurrency=_account_concurrency(there)
    )
    findings = [*measured.findings, _read_back(smoke, stores), *_beside(there, account)]
    if failures:
        findings += fail_on_purpose(there)
    if there.is_emulated:  # its speeds are not those of AWS
        findings = [each if each.is_wrong else replace(each, to_do="") for each in findings]
    if save is not None:
        _save(save, settings | {"measured": dict(measured.values)})
    if as_json:
        shown = {
            "stack": stack,
            "is_emulated": there.is_emulated,
            "measured": measured.values,
            "findings": findings,
        }
        print_json(shown)
    else:
        _print(findings, is_emulated=there.is_emulated)
    return 1 if any(each.is_wrong for each in findings) else 0


def _opened_s(smoke: Smoke, stores: StoreSettings) -> list[float]:
    cube = zarr.open_group(ObjectStore(open_place(smoke.result["cube"], stores), read_only=True), mode="r")
    seconds: list[float] = np.asarray(cube["open"]).ravel().tolist()
    return seconds


def _read_back(smoke: Smoke, stores: StoreSettings) -> Finding:
    found = verify(smoke.result["cube"], stores=stores)
    return check_needed(
        "the cube as it lies in the bucket",
        assumed="its receipt",
        measured="the same" if found.is_same else "; ".join(found.differences),
        is_so=found.is_same,
        otherwise="use no cube of this deployment, and report it",
    )


def _account_concurrency(there: DeployedStack) -> int:
    with aws_errors_in_words():
        return int(there.lambda_.get_account_settings()["AccountLimit"]["ConcurrentExecutions"])


def _beside(there: DeployedStack, account: AwsAccount) -> list[Finding]:
    with aws_errors_in_words():
        names = list(there.resources("AWS::CloudWatch::Alarm").values())
        pages = account.client("cloudwatch").get_paginator("describe_alarms").paginate(AlarmNames=names)
        found = [each for page in pages for each in page["MetricAlarms"]]
        return [alarms(found), heartbeats(found), architectures(list(there.functions.values()))]


def _settings_of(path: Path) -> dict[str, Any]:
    """Return what the file has. A file that cannot take the figures is told before the gather."""
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}", param_hint="'--save'")
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.exists() else {}
    except msgspec.DecodeError as error:
        raise click.BadParameter(
            f"{path} is no JSON object: {error}; mend it, or name another file", param_hint="'--save'"
        ) from error


def _save(path: Path, settings: dict[str, Any]) -> None:
    """Write the settings with the figures."""
    with replacing(path) as new:
        new.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    click.echo(
        f"{path}: the figures {', '.join(sorted(settings['measured']))} are those of this check. "
        "Plans have them after the next scripts/deploy",
        err=True,
    )


def _print(findings: list[Finding], *, is_emulated: bool) -> None:
    table = Table(
        Column("what", overflow="fold"),
        Column("assumed", overflow="fold"),
        Column("measured in the emulator" if is_emulated else "measured", overflow="fold"),
        Column("what to do", overflow="fold"),
    )
    for each in findings:
        table.add_row(each.what, each.assumed, each.measured, each.to_do or "-")
    Console(width=None if sys.stdout.isatty() else 160, soft_wrap=False).print(table)
    if is_emulated:
        click.echo(_EMULATED)
    click.echo(
        f"The model: {', '.join(assumptions.MEASURABLE)} are figures of core/estimate/assumptions.py. "
        "docs/first-day.md says what each row is."
    )
